# tessera_library(NAME [MLX] SOURCES ... [DEPENDS folder...] [LINK target...])
#
# One static library per folder of tessera/, named tessera_<folder>. DEPENDS names folders, as the
# include rule allows them (tools/check_layers.py checks the includes). MLX adds MLX and the shared
# precompiled header.
function(tessera_library name)
  cmake_parse_arguments(ARG "MLX" "" "SOURCES;DEPENDS;LINK" ${ARGN})
  add_library(tessera_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(tessera_${name} PUBLIC tessera_build ${ARG_LINK})
  foreach(folder IN LISTS ARG_DEPENDS)
    target_link_libraries(tessera_${name} PUBLIC tessera_${folder})
  endforeach()
  if(ARG_MLX)
    tessera_use_mlx(tessera_${name})
  endif()
endfunction()

# tessera_test(NAME [MLX] LABEL label SOURCES ... LINK target...)
#
# One GoogleTest program, and one ctest entry <label>.<NAME> that runs it whole; GoogleTest's own
# --gtest_filter picks single cases.
function(tessera_test name)
  cmake_parse_arguments(ARG "MLX" "LABEL;TIMEOUT" "SOURCES;LINK" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE tessera_build ${ARG_LINK} GTest::gtest_main GTest::gmock)
  target_compile_definitions(${name} PRIVATE TESSERA_FIXTURES="${CMAKE_SOURCE_DIR}/fixtures")
  if(ARG_MLX)
    tessera_use_mlx(${name})
  endif()
  add_test(NAME ${ARG_LABEL}.${name} COMMAND ${name})
  set_tests_properties(${ARG_LABEL}.${name} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT})
endfunction()
