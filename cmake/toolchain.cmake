# Warnings, sanitizers, and the faster linker and compiler cache where the machine has them.
# Everything hangs on the interface target tessera_build, which only our own targets link.

find_program(TESSERA_CCACHE ccache)
if(TESSERA_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # A precompiled header is only cacheable when ccache is told to look past its time stamps.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${TESSERA_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
find_program(TESSERA_MOLD mold)

add_library(tessera_build INTERFACE)
target_include_directories(tessera_build INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(tessera_build INTERFACE -Wall -Wextra -Wconversion -Wno-sign-conversion -Werror
                       -Wno-missing-field-initializers)  # designated initializers leave defaults out on purpose
# One setting for libraries and programs, so that all of them can share the precompiled header.
target_compile_options(tessera_build INTERFACE -fPIC)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # -fpch-preprocess lets ccache see through the precompiled header.
  target_compile_options(tessera_build INTERFACE -fpch-preprocess)
  # GCC 12 reports these inside the standard library's own inlined code (GCC bugs 105329, 105651).
  target_compile_options(tessera_build INTERFACE -Wno-restrict -Wno-stringop-overflow -Wno-array-bounds)
endif()
if(TESSERA_DCHECK)
  target_compile_definitions(tessera_build INTERFACE TESSERA_DCHECK_ENABLED=1)
endif()
if(TESSERA_SANITIZE)
  target_compile_options(tessera_build INTERFACE -fsanitize=${TESSERA_SANITIZE}
                         -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(tessera_build INTERFACE -fsanitize=${TESSERA_SANITIZE})
endif()
if(TESSERA_MOLD)
  target_link_options(tessera_build INTERFACE -fuse-ld=mold)
endif()
