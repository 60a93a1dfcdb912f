# What is installed, in three components.
#   runtime      what `make dist` packs: the compiler, the library with its C header and CMake package, the Python
#                package, the documents, and the tests that need a GPU
#   tools        flashc-opt and flashc-lsp-server, an archive of their own in `make dist`: they carry an LLVM each
#   development  the C++ libraries: headers and what TableGen made of them, archives, their part of the CMake package
include(CMakePackageConfigHelpers)
set(package_dir lib/cmake/flashc)

install(TARGETS flashc RUNTIME DESTINATION bin COMPONENT runtime)
install(TARGETS FlashcC EXPORT flashcTargets
  LIBRARY DESTINATION lib COMPONENT runtime NAMELINK_COMPONENT runtime
  INCLUDES DESTINATION include)
install(TARGETS flashc-opt flashc-lsp-server RUNTIME DESTINATION bin COMPONENT tools EXCLUDE_FROM_ALL)
install(DIRECTORY include/flashc-c DESTINATION include COMPONENT runtime)
# These belong to an unpacked archive; installed into a system's prefix, where other files lie, they would be in the
# way.
install(DIRECTORY examples docs DESTINATION . COMPONENT runtime EXCLUDE_FROM_ALL)
install(FILES README.md DESTINATION . COMPONENT runtime EXCLUDE_FROM_ALL)
install(DIRECTORY python/flashc DESTINATION python COMPONENT runtime EXCLUDE_FROM_ALL PATTERN __pycache__ EXCLUDE)
install(FILES utils/gpu_worker.py DESTINATION utils COMPONENT runtime EXCLUDE_FROM_ALL)
install(PROGRAMS utils/gpu_check.py DESTINATION utils COMPONENT runtime EXCLUDE_FROM_ALL)
install(FILES utils/dist.mk DESTINATION . RENAME Makefile COMPONENT runtime EXCLUDE_FROM_ALL)

get_property(libraries GLOBAL PROPERTY FLASHC_LIBRARIES)
install(TARGETS ${libraries} EXPORT flashcCxxTargets
  ARCHIVE DESTINATION lib COMPONENT development
  INCLUDES DESTINATION include)
install(DIRECTORY include/flashc DESTINATION include COMPONENT development
  FILES_MATCHING PATTERN *.h PATTERN *.td)
install(DIRECTORY ${CMAKE_BINARY_DIR}/include/flashc DESTINATION include COMPONENT development
  FILES_MATCHING PATTERN *.h PATTERN *.inc PATTERN CMakeFiles EXCLUDE)

# Before 1.0 every minor version may change the API and the ABI (semver.org, 4).
set(compatibility SameMajorVersion)
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(compatibility SameMinorVersion)
endif()
list(TRANSFORM libraries PREPEND flashc:: OUTPUT_VARIABLE FLASHC_CXX_TARGETS)
list(JOIN FLASHC_CXX_TARGETS " " FLASHC_CXX_TARGETS)
configure_package_config_file(cmake/flashcConfig.cmake.in ${CMAKE_BINARY_DIR}/CMakeFiles/flashcConfig.cmake
  INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/CMakeFiles/flashcConfigVersion.cmake COMPATIBILITY
                                 ${compatibility})
install(FILES ${CMAKE_BINARY_DIR}/CMakeFiles/flashcConfig.cmake ${CMAKE_BINARY_DIR}/CMakeFiles/flashcConfigVersion.cmake
  DESTINATION ${package_dir} COMPONENT runtime)
install(EXPORT flashcTargets NAMESPACE flashc:: DESTINATION ${package_dir} COMPONENT runtime)
install(FILES cmake/FlashcLLVM.cmake DESTINATION ${package_dir} COMPONENT development)
install(EXPORT flashcCxxTargets NAMESPACE flashc:: DESTINATION ${package_dir} COMPONENT development)
