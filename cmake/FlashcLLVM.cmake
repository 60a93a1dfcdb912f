# Finds LLVM and MLIR 22, and prepares their targets for static linking: for flashc's own build and, installed, for the
# component `cxx` of find_package(flashc). Says in FLASHC_LLVM_MISTAKE what is wrong, if something is.
set(FLASHC_LLVM_MAJOR 22)
set(FLASHC_LLVM_MISTAKE)
# The packages match only their exact version, so the major version is checked by hand. /usr/lib/llvm-22 is where Debian
# and Ubuntu have it.
find_package(MLIR CONFIG QUIET HINTS /usr/lib/llvm-${FLASHC_LLVM_MAJOR})
if(NOT MLIR_FOUND)
  set(FLASHC_LLVM_MISTAKE "flashc needs MLIR ${FLASHC_LLVM_MAJOR}, found none; MLIR_DIR may say where it is")
  return()
endif()
if(NOT LLVM_VERSION_MAJOR EQUAL FLASHC_LLVM_MAJOR)
  set(FLASHC_LLVM_MISTAKE "flashc needs LLVM ${FLASHC_LLVM_MAJOR}, found ${LLVM_PACKAGE_VERSION} in ${LLVM_DIR}")
  return()
endif()
if(TARGET FlashcLLVM)
  return()
endif()

# The packages export MLIR's static archives as users of the shared libLLVM (and a few of libMLIR). flashc links
# everything statically: one LLVM in the binary, nothing to find at run time, a start in milliseconds. So in every
# exported MLIR target the shared libraries give way to LLVM's static components.
llvm_map_components_to_libnames(_flashc_libs
  Analysis AsmParser BitReader BitWriter CodeGen Core ExecutionEngine IRReader JITLink Linker MC MCParser
  NVPTXCodeGen NVPTXDesc NVPTXInfo OrcJIT Passes Support Target TargetParser TransformUtils
  X86AsmParser X86CodeGen X86Desc X86Info)
add_library(FlashcLLVM INTERFACE IMPORTED)
target_link_libraries(FlashcLLVM INTERFACE ${_flashc_libs})
foreach(_flashc_target IN LISTS MLIR_EXPORTED_TARGETS)
  get_target_property(_flashc_type ${_flashc_target} TYPE)
  if(NOT _flashc_type STREQUAL "STATIC_LIBRARY")
    continue()
  endif()
  get_target_property(_flashc_libs ${_flashc_target} INTERFACE_LINK_LIBRARIES)
  if(_flashc_libs)
    list(TRANSFORM _flashc_libs REPLACE "^LLVM$" "FlashcLLVM")
    list(REMOVE_ITEM _flashc_libs MLIR)
    list(REMOVE_DUPLICATES _flashc_libs)
    set_target_properties(${_flashc_target} PROPERTIES INTERFACE_LINK_LIBRARIES "${_flashc_libs}")
  endif()
endforeach()

# LLVM's support library names the shared zlib and zstd; their archives leave nothing to find at run time.
find_library(FLASHC_ZLIB_ARCHIVE libz.a)
find_library(FLASHC_ZSTD_ARCHIVE libzstd.a)
mark_as_advanced(FLASHC_ZLIB_ARCHIVE FLASHC_ZSTD_ARCHIVE)
get_target_property(_flashc_libs LLVMSupport INTERFACE_LINK_LIBRARIES)
if(FLASHC_ZLIB_ARCHIVE)
  list(TRANSFORM _flashc_libs REPLACE "^ZLIB::ZLIB$" "${FLASHC_ZLIB_ARCHIVE}")
endif()
if(FLASHC_ZSTD_ARCHIVE)
  list(TRANSFORM _flashc_libs REPLACE "^zstd::libzstd_shared$" "${FLASHC_ZSTD_ARCHIVE}")
endif()
set_target_properties(LLVMSupport PROPERTIES INTERFACE_LINK_LIBRARIES "${_flashc_libs}")
unset(_flashc_libs)
unset(_flashc_type)
