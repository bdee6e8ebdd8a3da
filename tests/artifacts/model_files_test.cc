#include "tessera/artifacts/model_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "tessera/error.h"
#include "tests/temporary_folder.h"

namespace tessera::artifacts {
namespace {

using test::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal(const std::string& name, ErrorKind kind) {
  try {
    find_model(name);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "found " << name;
  return "";
}

/// Points both caches into a temporary folder.
class ModelFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("HF_HUB_CACHE", (folder_.path() / "hub").c_str(), 1);
    ::setenv("XDG_CACHE_HOME", (folder_.path() / "cache").c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("HF_HUB_CACHE");
    ::unsetenv("XDG_CACHE_HOME");
  }
  std::string at(const std::string& name) const { return (folder_.path() / name).string(); }

  TemporaryFolder folder_;
};

TEST_F(ModelFilesTest, FindsAFolder) {
  folder_.write("m/config.json", "{}");
  folder_.write("m/model.safetensors", "x");
  const ModelFiles files = find_model(at("m"));
  EXPECT_FALSE(files.is_gguf());
  EXPECT_EQ(files.safetensors, std::vector{folder_.path() / "m/model.safetensors"});
  EXPECT_TRUE(files.index.empty());
  EXPECT_EQ(files.folder, folder_.path() / "m");
}

TEST_F(ModelFilesTest, FindsShards) {
  folder_.write("m/config.json", "{}");
  folder_.write("m/model.safetensors.index.json",
                R"({"weight_map":{"a":"two.safetensors","b":"one.safetensors","c":"one.safetensors"}})");
  folder_.write("m/one.safetensors", "x");
  EXPECT_THAT(refusal(at("m"), ErrorKind::kInvalidArtifact),
              AllOf(HasSubstr("index.json"), HasSubstr("two.safetensors")));
  folder_.write("m/two.safetensors", "x");
  EXPECT_EQ(find_model(at("m")).safetensors.size(), 2u);
  folder_.write("m/model.safetensors.index.json", R"({"weight_map":{"a":"../one.safetensors"}})");
  EXPECT_THAT(refusal(at("m"), ErrorKind::kInvalidArtifact), HasSubstr("plain file name"));
}

TEST_F(ModelFilesTest, ALinkThatLeadsNowhereIsNoMissingFile) {
  folder_.write("m/config.json", "{}");
  folder_.write("m/model.safetensors", "x");
  folder_.write("m/model.gguf", "x");
  std::filesystem::create_symlink("nowhere", at("m/model.safetensors.index.json"));
  EXPECT_THAT(refusal(at("m"), ErrorKind::kInvalidArtifact), HasSubstr(at("m/model.safetensors.index.json")));
  std::filesystem::remove(at("m/model.safetensors.index.json"));
  std::filesystem::remove(at("m/model.safetensors"));
  std::filesystem::create_symlink("nowhere", at("m/model.safetensors"));
  EXPECT_FALSE(find_model(at("m")).is_gguf()) << "opening the weights names what is wrong";
}

TEST_F(ModelFilesTest, NamesWhatAFolderLacks) {
  folder_.write("m/model.safetensors", "x");
  EXPECT_THAT(refusal(at("m"), ErrorKind::kInvalidArtifact), HasSubstr("config.json is missing"));
  folder_.write("n/config.json", "{}");
  EXPECT_THAT(refusal(at("n"), ErrorKind::kInvalidArtifact), HasSubstr("no weights"));
}

TEST_F(ModelFilesTest, FindsGgufFilesAndAllPartsOfASplitOne) {
  folder_.write("g/one.gguf", "x");
  EXPECT_EQ(find_model(at("g/one.gguf")).gguf.size(), 1u);
  EXPECT_EQ(find_model(at("g")).gguf.size(), 1u);
  folder_.write("s/big-00001-of-00003.gguf", "x");
  folder_.write("s/big-00003-of-00003.gguf", "x");
  EXPECT_THAT(refusal(at("s/big-00001-of-00003.gguf"), ErrorKind::kInvalidArtifact),
              HasSubstr("big-00002-of-00003.gguf"));
  folder_.write("s/big-00002-of-00003.gguf", "x");
  for (const char* name : {"s", "s/big-00002-of-00003.gguf"}) {
    const ModelFiles files = find_model(at(name));
    ASSERT_EQ(files.gguf.size(), 3u);
    EXPECT_EQ(files.gguf[2].filename(), "big-00003-of-00003.gguf");
  }
  folder_.write("s/other.gguf", "x");
  EXPECT_THAT(refusal(at("s"), ErrorKind::kInvalidArgument),
              AllOf(HasSubstr("2 GGUF models"), HasSubstr("other.gguf")));
  EXPECT_THAT(refusal(at("absent.gguf"), ErrorKind::kInvalidArgument), HasSubstr("no file"));
}

TEST_F(ModelFilesTest, FindsCachedRepositories) {
  const std::string repository = "hub/models--org--name";
  EXPECT_THAT(refusal("org/name", ErrorKind::kInvalidArgument),
              AllOf(HasSubstr("models--org--name"), HasSubstr("tessera pull org/name")));
  folder_.write(repository + "/refs/main", "abc123\n");
  EXPECT_THAT(refusal("org/name", ErrorKind::kInvalidArtifact), HasSubstr("abc123"));
  folder_.write(repository + "/snapshots/abc123/config.json", "{}");
  folder_.write(repository + "/snapshots/abc123/model.safetensors", "x");
  EXPECT_EQ(find_model("org/name").folder, folder_.path() / repository / "snapshots/abc123");
  EXPECT_EQ(find_model("org/name@abc123").name, "org/name@abc123");
  EXPECT_THAT(refusal("org/name@v2", ErrorKind::kInvalidArgument), HasSubstr("\"v2\""));
  folder_.write(repository + "/refs/main", "../../../etc");
  EXPECT_THAT(refusal("org/name", ErrorKind::kInvalidArtifact), HasSubstr("expected a commit"));
}

TEST_F(ModelFilesTest, FindsRevisionsWithSlashes) {
  const std::string repository = "hub/models--org--name";
  folder_.write(repository + "/refs/refs/pr/1", "abc123");
  folder_.write(repository + "/snapshots/abc123/config.json", "{}");
  folder_.write(repository + "/snapshots/abc123/model.safetensors", "x");
  folder_.write(repository + "/snapshots/abc123/part/config.json", "{}");
  folder_.write(repository + "/snapshots/abc123/part/model.safetensors", "x");
  EXPECT_EQ(find_model("org/name@refs/pr/1").folder, folder_.path() / repository / "snapshots/abc123");
  EXPECT_THAT(refusal("org/name@a/b", ErrorKind::kInvalidArgument), HasSubstr("tessera pull org/name@a/b"));
  // A folder inside of a snapshot is no revision, nor is one outside of the repository.
  refusal("org/name@abc123/part", ErrorKind::kInvalidArgument);
  refusal("org/name@../snapshots/abc123", ErrorKind::kInvalidArgument);
  refusal("org/name@refs/../refs/pr/1", ErrorKind::kInvalidArgument);
}

TEST_F(ModelFilesTest, TakesTheCacheFromTheEnvironment) {
  EXPECT_EQ(hugging_face_cache(), folder_.path() / "hub");
  ::unsetenv("HF_HUB_CACHE");
  ::setenv("HF_HOME", "/elsewhere", 1);
  EXPECT_EQ(hugging_face_cache(), "/elsewhere/hub");
  ::unsetenv("HF_HOME");
  EXPECT_TRUE(hugging_face_cache().string().ends_with(".cache/huggingface/hub"));
}

TEST_F(ModelFilesTest, FindsTheDefaultModel) {
  EXPECT_THAT(refusal("default", ErrorKind::kInvalidArgument),
              AllOf(HasSubstr("cache/tessera/models/"), HasSubstr("tessera pull default")));
  folder_.write("cache/tessera/models/SmolLM2-135M-Instruct.Q4_1.gguf", "x");
  EXPECT_EQ(find_model("default").gguf.size(), 1u);
}

TEST_F(ModelFilesTest, RefusesNamesThatAreNothing) {
  folder_.write("plain.txt", "x");
  EXPECT_THAT(refusal(at("plain.txt"), ErrorKind::kInvalidArgument), HasSubstr("is a file"));
  for (const char* name : {"", "nothing", "a/b/c", "../x", "a/..", "org/na me", "org/name@../x", "/absent"}) {
    refusal(name, ErrorKind::kInvalidArgument);
  }
}

}  // namespace
}  // namespace tessera::artifacts
