#include "tessera/artifacts/digest.h"

#include <gtest/gtest.h>

#include "tessera/artifacts/download.h"

namespace tessera::artifacts {
namespace {

TEST(Digest, Sha256OfTheStandardsExample) {
  // FIPS 180-2, appendix B.1.
  Digest digest = Digest::sha256();
  digest.update("a");
  digest.update("bc");
  EXPECT_EQ(digest.hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Digest, GitBlobAsGitNamesIt) {
  EXPECT_EQ(Digest::git_blob(0).hex(),
            "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");  // git hash-object /dev/null
  Digest digest = Digest::git_blob(6);
  digest.update("hello\n");
  EXPECT_EQ(digest.hex(),
            "ce013625030ba8dba906f756967f9e9ca394464a");  // echo hello | git hash-object --stdin
}

TEST(UrlEncode, KeepsWhatIsAsked) {
  EXPECT_EQ(url_encode("a-b_c.d~e1"), "a-b_c.d~e1");
  EXPECT_EQ(url_encode("refs/pr/1"), "refs%2Fpr%2F1");
  EXPECT_EQ(url_encode("a/b c+d%\xc3\xa9", "/"), "a/b%20c%2Bd%25%C3%A9");
}

}  // namespace
}  // namespace tessera::artifacts
