# MLX from its PyPI backend wheel, which scripts/bootstrap unpacks into .mlx/ (ignored by git).
# TESSERA_MLX_ROOT may name another unpacked wheel or an installed MLX.

set(TESSERA_MLX_ROOT "${CMAKE_SOURCE_DIR}/.mlx/mlx" CACHE PATH "Folder with MLX's include/, lib/ and share/")
find_package(MLX CONFIG REQUIRED PATHS "${TESSERA_MLX_ROOT}/share/cmake/MLX" NO_DEFAULT_PATH)

# MLX's headers are not warning-free under our flags.
add_library(tessera_mlx INTERFACE)
target_include_directories(tessera_mlx SYSTEM INTERFACE ${TESSERA_MLX_ROOT}/include)
find_library(TESSERA_MLX_LIBRARY mlx PATHS ${TESSERA_MLX_ROOT}/lib NO_DEFAULT_PATH REQUIRED)
target_link_libraries(tessera_mlx INTERFACE ${TESSERA_MLX_LIBRARY})

# One precompiled header for the whole build: MLX costs seconds per translation unit otherwise.
# (file(CONFIGURE) leaves an unchanged file alone: a new time stamp would rebuild everything.)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/mlx_pch.cc CONTENT "// The owner of the precompiled MLX header.\n")
add_library(tessera_mlx_pch STATIC ${CMAKE_BINARY_DIR}/generated/mlx_pch.cc)
target_link_libraries(tessera_mlx_pch PUBLIC tessera_build tessera_mlx)
target_precompile_headers(tessera_mlx_pch PRIVATE
  <algorithm> <cstdint> <functional> <map> <memory> <optional> <span> <string> <string_view>
  <unordered_map> <utility> <variant> <vector> <mlx/mlx.h>)

function(tessera_use_mlx target)
  target_link_libraries(${target} PUBLIC tessera_mlx)
  target_precompile_headers(${target} REUSE_FROM tessera_mlx_pch)
endfunction()
