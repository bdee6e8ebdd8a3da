# `cmake --install` gives a tree that can be moved:
#   bin/tessera                       the program, finds its library through $ORIGIN/../lib
#   lib/libtessera.so                 finds MLX through $ORIGIN/tessera/mlx/lib
#   lib/tessera/mlx/{include,lib}     MLX as its wheel has it
#   lib/tessera/<wheel>.libs          what the wheel bundles; libmlx.so finds it through its own RPATH
#   include/tessera/**                both levels of the API
#   lib/cmake/Tessera                 find_package(Tessera)
#   share/doc/tessera                 licences
include(CMakePackageConfigHelpers)

set(mlx_destination ${CMAKE_INSTALL_LIBDIR}/tessera/mlx)

set_target_properties(tessera PROPERTIES INSTALL_RPATH "$ORIGIN;$ORIGIN/tessera/mlx/lib")
set_target_properties(tessera_cli PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
install(TARGETS tessera_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS tessera EXPORT TesseraTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT TesseraTargets NAMESPACE Tessera:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Tessera)

install(DIRECTORY ${CMAKE_SOURCE_DIR}/tessera DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
install(DIRECTORY ${TESSERA_MLX_ROOT}/include ${TESSERA_MLX_ROOT}/lib DESTINATION ${mlx_destination}
        PATTERN "cmake" EXCLUDE PATTERN "python" EXCLUDE)
file(GLOB mlx_bundled ${TESSERA_MLX_ROOT}/../mlx_*.libs)
if(mlx_bundled)
  install(DIRECTORY ${mlx_bundled} DESTINATION ${CMAKE_INSTALL_LIBDIR}/tessera)
endif()

install(FILES ${CMAKE_SOURCE_DIR}/LICENSE ${CMAKE_SOURCE_DIR}/NOTICE DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/tessera)
file(GLOB mlx_licences ${TESSERA_MLX_ROOT}/../mlx_*.dist-info/licenses)
if(mlx_licences)
  install(DIRECTORY ${mlx_licences}/ DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/tessera/mlx)
endif()

configure_package_config_file(
  ${CMAKE_SOURCE_DIR}/cmake/TesseraConfig.cmake.in ${CMAKE_BINARY_DIR}/generated/TesseraConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Tessera
  PATH_VARS mlx_destination)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/generated/TesseraConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/generated/TesseraConfig.cmake
              ${CMAKE_BINARY_DIR}/generated/TesseraConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Tessera)
