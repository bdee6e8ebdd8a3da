#include "tessera/artifacts/model_names.h"

#include <gtest/gtest.h>

namespace tessera::artifacts {
namespace {

TEST(ModelNames, HubNames) {
  const auto plain = parse_hub_name("org-1/name_2.5");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->repository, "org-1/name_2.5");
  EXPECT_EQ(plain->revision, std::nullopt);
  EXPECT_EQ(plain->cache_folder(), "models--org-1--name_2.5");
  const auto pull_request = parse_hub_name("org/name@refs/pr/1");
  ASSERT_TRUE(pull_request);
  EXPECT_EQ(pull_request->repository, "org/name");
  EXPECT_EQ(pull_request->revision, "refs/pr/1");
  EXPECT_EQ(parse_hub_name("org/name@v1@2")->revision, "v1@2");
}

TEST(ModelNames, WhatIsNoHubName) {
  const std::string long_part(97, 'a');
  for (const std::string& name : {std::string(),
                                  std::string("name"),
                                  std::string("org/"),
                                  std::string("/name"),
                                  std::string("a/b/c"),
                                  std::string("../name"),
                                  std::string("org/.."),
                                  std::string("org/.name"),
                                  std::string("org/a..b"),
                                  std::string("org/a--b"),
                                  std::string("org/na me"),
                                  std::string("org/name@"),
                                  std::string("org@x/name"),
                                  std::string("org/name@.."),
                                  std::string("org/name@../x"),
                                  std::string("org/name@a/../b"),
                                  std::string("org/name@/x"),
                                  std::string("org/name@x/"),
                                  std::string("org/name@a//b"),
                                  std::string("org/name@a\\b"),
                                  std::string("org/name@a\0b", 12),
                                  "org/" + long_part}) {
    EXPECT_FALSE(parse_hub_name(name)) << name;
  }
}

TEST(ModelNames, SafePaths) {
  for (const char* path : {"a", "a/b.json", "..a", "a..", "...", "refs/pr/1"}) {
    EXPECT_TRUE(is_safe_path(path)) << path;
  }
  for (const char* path : {"", ".", "..", "/", "/a", "a/", "a//b", "a/./b", "a/..", "a\\b", "a\nb", "\x7f"}) {
    EXPECT_FALSE(is_safe_path(path)) << path;
  }
}

TEST(ModelNames, PartsOfSplitGgufFiles) {
  const auto split = parse_split_gguf_name("folder/big-q4-00002-of-00013.gguf");
  ASSERT_TRUE(split);
  EXPECT_EQ(split->stem, "folder/big-q4");
  EXPECT_EQ(split->n_parts, 13);
  EXPECT_EQ(split->part(2), "folder/big-q4-00002-of-00013.gguf");
  for (const char* name : {"a.gguf", "-00001-of-00002.gguf", "a-0001-of-00002.gguf", "a-00001-of-0000x.gguf",
                           "a-00001_of-00002.gguf", "a-00001-of-00002.ggu", "a-00001-of-00002.GGUF"}) {
    EXPECT_FALSE(parse_split_gguf_name(name)) << name;
  }
}

TEST(ModelNames, PartsOfOneModelShareAKey) {
  EXPECT_EQ(gguf_model_key("a-00001-of-00002.gguf"), gguf_model_key("a-00002-of-00002.gguf"));
  EXPECT_NE(gguf_model_key("a-00001-of-00002.gguf"), gguf_model_key("a-00001-of-00003.gguf"));
  EXPECT_NE(gguf_model_key("a-00001-of-00002.gguf"), gguf_model_key("b-00001-of-00002.gguf"));
  EXPECT_NE(gguf_model_key("a.gguf"), gguf_model_key("b.gguf"));
}

}  // namespace
}  // namespace tessera::artifacts
