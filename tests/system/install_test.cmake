# Installs a build, moves the tree, builds examples/ against it with a plain find_package(Tessera),
# and runs both programs from there.
#   cmake -DBUILD=<build folder> -DSOURCE=<repository> -P tests/system/install_test.cmake
cmake_minimum_required(VERSION 3.25)
get_filename_component(build ${BUILD} ABSOLUTE)
get_filename_component(source ${SOURCE} ABSOLUTE)

set(folder ${build}/install-test)
set(first ${folder}/installed)
set(moved ${folder}/moved/prefix)
file(REMOVE_RECURSE ${folder})
file(MAKE_DIRECTORY ${folder}/moved)

# Runs a command and returns its standard output in `out`; ends the test when it fails.
function(run out)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE error)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\nended with ${status}\n${output}\n${error}")
  endif()
  set(${out} "${output}" PARENT_SCOPE)
endfunction()

run(ignored ${CMAKE_COMMAND} --install ${build} --prefix ${first} --strip)
file(RENAME ${first} ${moved})

foreach(path bin/tessera include/tessera/engine.h include/tessera/error.h share/doc/tessera/LICENSE
             share/doc/tessera/NOTICE)
  if(NOT EXISTS ${moved}/${path})
    message(FATAL_ERROR "the installed tree lacks ${path}")
  endif()
endforeach()

run(version ${moved}/bin/tessera --version)
message(STATUS "bin/tessera --version: ${version}")

run(ignored ${CMAKE_COMMAND} -S ${source}/examples -B ${folder}/examples -G Ninja
    -DCMAKE_PREFIX_PATH=${moved} -DCMAKE_BUILD_TYPE=Release)
run(ignored ${CMAKE_COMMAND} --build ${folder}/examples)

# Every library must come from the moved tree or the system, none from the build or the first place.
foreach(program ${moved}/bin/tessera ${folder}/examples/generate)
  run(libraries ldd ${program})
  if(libraries MATCHES "not found" OR libraries MATCHES "${first}/" OR libraries MATCHES "${build}/lib/" OR
     libraries MATCHES "${source}/\\.mlx")
    message(FATAL_ERROR "${program} is not relocatable:\n${libraries}")
  endif()
endforeach()

run(text ${folder}/examples/generate ${source}/fixtures/gguf/llama-tiny-q4_1.gguf "Hello")
message(STATUS "examples/generate: ${text}")
file(REMOVE_RECURSE ${folder})
