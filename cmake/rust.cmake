# The Rust text library (rust/), built by cargo into one folder that all presets share: the library
# does not depend on a preset, and a cold build takes more than a minute.
#
# Target tessera::text_rust carries the archive, its header and the system libraries it needs.

find_program(TESSERA_CARGO cargo HINTS $ENV{CARGO_HOME}/bin $ENV{HOME}/.cargo/bin)
if(NOT TESSERA_CARGO)
  message(FATAL_ERROR "cargo was not found; run scripts/bootstrap, or pass -DTESSERA_CARGO=/path/to/cargo")
endif()

set(rust_folder ${CMAKE_SOURCE_DIR}/rust)
set(rust_target_folder ${CMAKE_SOURCE_DIR}/build/rust)
set(rust_library ${rust_target_folder}/release/libtessera_text.a)

# Ninja decides by these whether to start cargo at all; cargo then decides what to compile.
set(rust_sources
  Cargo.lock
  Cargo.toml
  src/error.rs
  src/ffi.rs
  src/gguf.rs
  src/json_dumps.rs
  src/lib.rs
  src/pre_tokenizers.rs
  src/python.rs
  src/template.rs
  src/token_bytes.rs
  src/tokenizer.rs
  src/tokenizer_config.rs)
list(TRANSFORM rust_sources PREPEND ${rust_folder}/)

# --locked: the versions are those of Cargo.lock or the build fails. Touching the archive keeps Ninja
# quiet where cargo found that nothing had changed (a checkout with newer time stamps). RUSTFLAGS is
# dropped, or two shells with different flags would rebuild each other's work.
add_custom_command(
  OUTPUT ${rust_library}
  COMMAND ${CMAKE_COMMAND} -E env --unset=RUSTFLAGS --unset=CARGO_TARGET_DIR
          ${TESSERA_CARGO} build --release --locked --quiet
          --manifest-path ${rust_folder}/Cargo.toml --target-dir ${rust_target_folder}
  COMMAND ${CMAKE_COMMAND} -E touch_nocreate ${rust_library}
  DEPENDS ${rust_sources}
  WORKING_DIRECTORY ${rust_folder}
  COMMENT "Building the Rust text library"
  USES_TERMINAL
  VERBATIM)
add_custom_target(tessera_text_rust DEPENDS ${rust_library})

add_library(tessera_text_rust_archive STATIC IMPORTED GLOBAL)
set_target_properties(tessera_text_rust_archive PROPERTIES IMPORTED_LOCATION ${rust_library})
target_include_directories(tessera_text_rust_archive SYSTEM INTERFACE ${rust_folder}/include)
find_package(Threads REQUIRED)
target_link_libraries(tessera_text_rust_archive INTERFACE Threads::Threads ${CMAKE_DL_LIBS} m)
add_dependencies(tessera_text_rust_archive tessera_text_rust)
add_library(tessera::text_rust ALIAS tessera_text_rust_archive)
