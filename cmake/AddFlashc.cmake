list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)

include_directories(SYSTEM ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
include_directories(${CMAKE_SOURCE_DIR}/include ${CMAKE_BINARY_DIR}/include)
separate_arguments(FLASHC_LLVM_DEFINITIONS UNIX_COMMAND "${LLVM_DEFINITIONS}")
add_definitions(${FLASHC_LLVM_DEFINITIONS})

# One precompiled header serves the whole project: it turns a 27 s compile of an MLIR source file into well under a
# second. Every target therefore compiles with the same options.
add_compile_options(-Wall -Wextra -Wno-unused-parameter)
# Exceptions stay on, although LLVM is built without: std::bad_alloc gives back locks and memory on its way to the C
# API, which makes a status of it (lib/CAPI/Support.h). LLVM's frames, which it passes, have unwind tables.
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  add_compile_options(-Wno-deprecated-declarations)
  find_program(FLASHC_LLD NAMES ld.lld-22 ld.lld PATHS /usr/lib/llvm-22/bin)
  if(FLASHC_LLD)
    add_link_options(-fuse-ld=${FLASHC_LLD})
  endif()
else()
  # Inlined LLVM headers trip GCC's flow-sensitive warnings; they say nothing about this project.
  add_compile_options(-Wno-maybe-uninitialized -Wno-dangling-reference -Wno-deprecated-declarations)
endif()
add_compile_options(-ffunction-sections -fdata-sections)
# The same code goes into the programs and into libflashc.so, which exports the C API alone.
add_compile_options(-fPIC -fvisibility=hidden $<$<COMPILE_LANGUAGE:CXX>:-fvisibility-inlines-hidden>)
add_link_options(-Wl,--gc-sections -Wl,--as-needed)
# The cache on disk tells builds apart by their build id. Relative relocations stay in the long form: the packed one
# needs glibc 2.36.
add_link_options(-Wl,--build-id=sha1)

add_library(FlashcPCH OBJECT ${CMAKE_SOURCE_DIR}/cmake/pch.cpp)
target_precompile_headers(FlashcPCH PRIVATE ${CMAKE_SOURCE_DIR}/cmake/pch.h)

# flashc_library(NAME file.cpp... [DEPENDS tablegen-target...] [LINK library...])
function(flashc_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_precompile_headers(${name} REUSE_FROM FlashcPCH)
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
  set_property(GLOBAL APPEND PROPERTY FLASHC_LIBRARIES ${name})
endfunction()

# flashc_link_whole(NAME): the C++ run-time library goes inside. With lld functions of the same code become one: 10 of
# the 66 MB of libflashc.so. Neither LLVM nor flashc tells functions apart by address; what has an identity (TypeID,
# pass IDs) is data, which stays apart.
function(flashc_link_whole name)
  target_link_options(${name} PRIVATE -static-libstdc++ -static-libgcc)
  if(FLASHC_LLD)
    target_link_options(${name} PRIVATE -Wl,--icf=all -Wl,-O2)
  endif()
endfunction()

# flashc_tool(NAME file.cpp... [LINK library...]): a program in build/bin that needs glibc and nothing else.
function(flashc_tool name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_precompile_headers(${name} REUSE_FROM FlashcPCH)
  target_link_libraries(${name} PRIVATE ${ARG_LINK} FlashcOldGlibc)
  flashc_link_whole(${name})
  set_property(GLOBAL APPEND PROPERTY FLASHC_TOOLS ${name})
endfunction()

# flashc_unittest(NAME file.cpp... [LINK library...]): a GoogleTest program in build/test/unittests, run by lit.
function(flashc_unittest name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_precompile_headers(${name} REUSE_FROM FlashcPCH)
  # The precompiled header instantiates templates that name MLIR's IR library, whatever the test is about.
  target_link_libraries(${name} PRIVATE ${ARG_LINK} MLIRIR GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test/unittests)
  set_property(GLOBAL APPEND PROPERTY FLASHC_UNITTESTS ${name})
endfunction()
