# Tests of downloads: `pull` against a server on the loopback interface, the default model against a
# script in place of Python. No other network is touched.
tessera_test(download_test LABEL fault
  SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/default_model_test.cc
    ${CMAKE_CURRENT_LIST_DIR}/digest_test.cc
    ${CMAKE_CURRENT_LIST_DIR}/pull_test.cc
  LINK tessera_download)
