# Downloads (`pull`, the default model): the only code that needs OpenSSL and an HTTP client.
find_package(OpenSSL REQUIRED)
find_package(Threads REQUIRED)
find_path(TESSERA_HTTPLIB_INCLUDE httplib.h REQUIRED)
# Debian compiles cpp-httplib into a library, with these options; elsewhere it is header-only.
find_library(TESSERA_HTTPLIB_LIBRARY cpp-httplib)

add_library(tessera_httplib INTERFACE)
target_include_directories(tessera_httplib SYSTEM INTERFACE ${TESSERA_HTTPLIB_INCLUDE})
target_compile_definitions(tessera_httplib INTERFACE CPPHTTPLIB_OPENSSL_SUPPORT)
if(TESSERA_HTTPLIB_LIBRARY)
  target_compile_definitions(tessera_httplib INTERFACE CPPHTTPLIB_ZLIB_SUPPORT CPPHTTPLIB_BROTLI_SUPPORT)
  target_link_libraries(tessera_httplib INTERFACE ${TESSERA_HTTPLIB_LIBRARY})
endif()
target_link_libraries(tessera_httplib INTERFACE OpenSSL::SSL OpenSSL::Crypto Threads::Threads)

tessera_library(download
  SOURCES default_model.cc digest.cc download.cc file_lock.cc http.cc pull.cc repository.cc
  DEPENDS base artifacts
  LINK tessera_httplib)
