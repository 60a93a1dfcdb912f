# Finds LLVM and MLIR 22. The packages match only their exact version, so the major version is checked by hand.
set(FLASHC_LLVM_MAJOR 22)
if(NOT DEFINED MLIR_DIR AND EXISTS /usr/lib/llvm-${FLASHC_LLVM_MAJOR}/lib/cmake/mlir)
  set(MLIR_DIR /usr/lib/llvm-${FLASHC_LLVM_MAJOR}/lib/cmake/mlir)
endif()
find_package(MLIR REQUIRED CONFIG)
if(NOT LLVM_VERSION_MAJOR EQUAL FLASHC_LLVM_MAJOR)
  message(FATAL_ERROR "flashc needs LLVM ${FLASHC_LLVM_MAJOR}, found ${LLVM_PACKAGE_VERSION} in ${LLVM_DIR}")
endif()
message(STATUS "Using LLVM ${LLVM_PACKAGE_VERSION}, MLIR in ${MLIR_DIR}")

list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)

include_directories(SYSTEM ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
include_directories(${CMAKE_SOURCE_DIR}/include ${CMAKE_BINARY_DIR}/include)
separate_arguments(FLASHC_LLVM_DEFINITIONS UNIX_COMMAND "${LLVM_DEFINITIONS}")
add_definitions(${FLASHC_LLVM_DEFINITIONS})

# The packages export MLIR's static archives as users of the shared libLLVM (and a few of libMLIR). flashc links
# everything statically: one LLVM in the binary, nothing to find at run time, a start in milliseconds. So in every
# exported MLIR target the shared libraries give way to LLVM's static components.
llvm_map_components_to_libnames(FLASHC_LLVM_LIBS
  Analysis AsmParser BitReader BitWriter CodeGen Core ExecutionEngine IRReader JITLink Linker MC MCParser
  NVPTXCodeGen NVPTXDesc NVPTXInfo OrcJIT Passes Support Target TargetParser TransformUtils
  X86AsmParser X86CodeGen X86Desc X86Info)
add_library(FlashcLLVM INTERFACE)
target_link_libraries(FlashcLLVM INTERFACE ${FLASHC_LLVM_LIBS})

# LLVM's support library names the shared zlib and zstd; their archives leave nothing to find at run time.
find_library(FLASHC_ZLIB_ARCHIVE libz.a)
find_library(FLASHC_ZSTD_ARCHIVE libzstd.a)
get_target_property(libs LLVMSupport INTERFACE_LINK_LIBRARIES)
if(FLASHC_ZLIB_ARCHIVE)
  list(TRANSFORM libs REPLACE "^ZLIB::ZLIB$" "${FLASHC_ZLIB_ARCHIVE}")
endif()
if(FLASHC_ZSTD_ARCHIVE)
  list(TRANSFORM libs REPLACE "^zstd::libzstd_shared$" "${FLASHC_ZSTD_ARCHIVE}")
endif()
set_target_properties(LLVMSupport PROPERTIES INTERFACE_LINK_LIBRARIES "${libs}")

foreach(target IN LISTS MLIR_EXPORTED_TARGETS)
  get_target_property(type ${target} TYPE)
  if(NOT type STREQUAL "STATIC_LIBRARY")
    continue()
  endif()
  get_target_property(libs ${target} INTERFACE_LINK_LIBRARIES)
  if(libs)
    list(TRANSFORM libs REPLACE "^LLVM$" "FlashcLLVM")
    list(REMOVE_ITEM libs MLIR)
    list(REMOVE_DUPLICATES libs)
    set_target_properties(${target} PROPERTIES INTERFACE_LINK_LIBRARIES "${libs}")
  endif()
endforeach()
