#include "tessera/artifacts/pull.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>

#include "tessera/base/file.h"
#include "tessera/error.h"
#include "tests/artifacts/fake_hub.h"
#include "tests/temporary_folder.h"

namespace tessera::artifacts {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class PullTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::unsetenv("HF_TOKEN");
    ::unsetenv("HF_ENDPOINT");
    hub_.files = {
        {"config.json", {R"({"model_type": "tiny"})"}},
        {"tokenizer.json", {std::string(3000, 't')}},
        {"model.safetensors", {noise(400'000), true}},
    };
  }
  void TearDown() override { hub_.is_stalling = false; }

  RepositoryOptions options() const {
    RepositoryOptions options;
    options.endpoint = hub_.url();
    options.cache = cache_;
    options.timeout_s = 5.0;
    options.attempts = 1;
    return options;
  }

  PulledRepository pull_default() const { return pull_repository("org/name", options()); }

  fs::path root() const { return cache_ / "models--org--name"; }
  std::string content(const fs::path& snapshot, const std::string& name) const {
    return base::read_file(snapshot / name);
  }
  std::vector<std::string> blobs() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(root() / "blobs"))
      names.push_back(entry.path().filename());
    return names;
  }

  FakeHub hub_;
  test::TemporaryFolder temporary_;
  const fs::path& cache_ = temporary_.path();
};

/// The error that `action` ends with, as "kind message".
std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return std::string(error_kind_name(error.kind())) + " " + error.what();
  }
  return "no error";
}

TEST_F(PullTest, BringsTheFilesInTheLayoutOfTheHub) {
  hub_.files["additional_chat_templates/tool.jinja"] = {"{{ x }}"};
  const PulledRepository pulled = pull_default();
  EXPECT_EQ(pulled.snapshot, root() / "snapshots" / hub_.commit);
  EXPECT_EQ(pulled.commit, hub_.commit);
  EXPECT_THAT(pulled.files, UnorderedElementsAre("config.json", "tokenizer.json", "model.safetensors",
                                                 "additional_chat_templates/tool.jinja"));
  for (const auto& [name, file] : hub_.files) EXPECT_EQ(content(pulled.snapshot, name), file.content) << name;
  EXPECT_EQ(pulled.downloaded_bytes, pulled.total_bytes);

  EXPECT_EQ(base::read_file(root() / "refs" / "main"), hub_.commit);
  const std::string large = sha256_of(hub_.files["model.safetensors"].content);
  const std::string small = git_blob_of(hub_.files["config.json"].content);
  const std::string nested = git_blob_of("{{ x }}");
  EXPECT_EQ(fs::read_symlink(pulled.snapshot / "model.safetensors"), "../../blobs/" + large);
  EXPECT_EQ(fs::read_symlink(pulled.snapshot / "config.json"), "../../blobs/" + small);
  EXPECT_EQ(fs::read_symlink(pulled.snapshot / "additional_chat_templates/tool.jinja"),
            "../../../blobs/" + nested);
  EXPECT_THAT(blobs(), SizeIs(4)) << "no partial files are left";
}

TEST_F(PullTest, SecondPullDownloadsNothing) {
  pull_default();
  const std::size_t before = hub_.requests().size();
  const PulledRepository again = pull_default();
  EXPECT_EQ(again.downloaded_bytes, 0U);
  EXPECT_THAT(again.files, SizeIs(3));
  EXPECT_EQ(hub_.requests().size(), before + 1) << "only the listing is asked for";
}

TEST_F(PullTest, NewCommitReusesUnchangedFiles) {
  const PulledRepository first = pull_default();
  hub_.commit = std::string(40, 'b');
  hub_.files["config.json"].content = R"({"model_type": "changed"})";
  const PulledRepository second = pull_default();
  EXPECT_EQ(second.downloaded_bytes, hub_.files["config.json"].content.size());
  EXPECT_EQ(base::read_file(root() / "refs" / "main"), hub_.commit);
  EXPECT_EQ(content(second.snapshot, "config.json"), R"({"model_type": "changed"})");
  EXPECT_EQ(content(first.snapshot, "config.json"), R"({"model_type": "tiny"})");
}

TEST_F(PullTest, RevisionsAreRefsOrCommits) {
  RepositoryOptions pull_request = options();
  pull_request.revision = "refs/pr/1";
  pull_repository("org/name", pull_request);
  EXPECT_EQ(base::read_file(root() / "refs" / "refs/pr/1"), hub_.commit);
  EXPECT_FALSE(fs::exists(root() / "refs" / "main"));
  fs::remove(root() / "refs" / "refs/pr/1");
  pull_repository("org/name@refs/pr/1", options());
  EXPECT_EQ(base::read_file(root() / "refs" / "refs/pr/1"), hub_.commit);
  pull_repository("org/name@" + hub_.commit, options());
  EXPECT_FALSE(fs::exists(root() / "refs" / hub_.commit)) << "a commit needs no ref";
}

TEST_F(PullTest, ResumesACutConnectionInTheSameCall) {
  hub_.cuts = 1;
  hub_.files = {{"model.safetensors", {noise(400'000), true}}};
  RepositoryOptions patient = options();
  patient.attempts = 3;
  const PulledRepository pulled = pull_repository("org/name", patient);
  EXPECT_EQ(content(pulled.snapshot, "model.safetensors"), hub_.files["model.safetensors"].content);
  EXPECT_EQ(pulled.downloaded_bytes, 400'000U) << "no byte came twice";
  const auto requests = hub_.requests("/blob/");
  ASSERT_THAT(requests, SizeIs(2));
  EXPECT_EQ(requests[1].range, "bytes=200000-");
}

TEST_F(PullTest, ResumesWhatAnEarlierCallLeft) {
  hub_.cuts = 1;
  hub_.files = {{"model.safetensors", {noise(400'000), true}}};
  EXPECT_THAT(error_of([&] { pull_default(); }),
              AllOf(HasSubstr("resource_exhausted"), HasSubstr("model.safetensors"), HasSubstr("lost")));
  EXPECT_THAT(blobs(), ElementsAre(HasSubstr(".incomplete")));
  EXPECT_FALSE(fs::exists(root() / "refs" / "main"));
  const PulledRepository pulled = pull_default();
  EXPECT_EQ(pulled.downloaded_bytes, 200'000U);
  EXPECT_EQ(content(pulled.snapshot, "model.safetensors"), hub_.files["model.safetensors"].content);
}

TEST_F(PullTest, BeginsAnewWhenTheServerIgnoresRanges) {
  hub_.cuts = 1;
  EXPECT_THAT(error_of([&] { pull_default(); }), HasSubstr("resource_exhausted"));
  hub_.ignores_ranges = true;
  const PulledRepository pulled = pull_default();
  EXPECT_EQ(content(pulled.snapshot, "model.safetensors"), hub_.files["model.safetensors"].content);
}

TEST_F(PullTest, BeginsAnewWhenThePartialFileIsOfAnotherVersion) {
  hub_.files = {{"model.safetensors", {noise(400'000), true}}};
  const std::string blob = sha256_of(hub_.files["model.safetensors"].content);
  fs::create_directories(root() / "blobs");
  for (const std::size_t size : {1000U, 400'000U, 500'000U}) {
    std::ofstream(root() / "blobs" / (blob + ".incomplete")) << noise(size, 7);
    const PulledRepository pulled = pull_default();
    EXPECT_EQ(content(pulled.snapshot, "model.safetensors"), hub_.files["model.safetensors"].content);
    fs::remove(root() / "blobs" / blob);
  }
}

TEST_F(PullTest, RefusesAWrongHash) {
  for (const std::string name : {"model.safetensors", "config.json"}) {
    SCOPED_TRACE(name);
    std::string other = hub_.files[name].content;
    other.back() = static_cast<char>(other.back() ^ 1);
    hub_.lie = {{name, other}};
    EXPECT_THAT(error_of([&] { pull_default(); }), AllOf(HasSubstr("invalid_artifact"), HasSubstr(name),
                                                         HasSubstr("expected"), HasSubstr("got")));
    EXPECT_FALSE(fs::exists(root() / "refs" / "main"));
    EXPECT_THAT(blobs(), Each(Not(HasSubstr(".incomplete")))) << "a wrong partial file is not kept";
    fs::remove_all(root());
  }
  hub_.lie.clear();
  EXPECT_THAT(pull_default().files, SizeIs(3));
}

TEST_F(PullTest, RefusesAWrongSize) {
  hub_.lie = {{"model.safetensors", hub_.files["model.safetensors"].content + "more"}};
  EXPECT_THAT(error_of([&] { pull_default(); }), AllOf(HasSubstr("invalid_artifact"), HasSubstr("400004")));
}

TEST_F(PullTest, SaysWhatIsNotThere) {
  RepositoryOptions other = options();
  other.revision = "nowhere";
  EXPECT_THAT(
      error_of([&] { pull_repository("org/name", other); }),
      AllOf(HasSubstr("invalid_argument"), HasSubstr("nowhere"), HasSubstr("404"), HasSubstr(hub_.url())));
  EXPECT_THAT(error_of([&] { pull_repository("org/other", options()); }),
              AllOf(HasSubstr("invalid_argument"), HasSubstr("org/other"), HasSubstr("404")));
}

TEST_F(PullTest, SaysWhichListedFileIsNotThere) {
  hub_.missing = "tokenizer.json";
  EXPECT_THAT(error_of([&] { pull_default(); }),
              AllOf(HasSubstr("invalid_argument"), HasSubstr("lists tokenizer.json but does not have it"),
                    HasSubstr("404"), Not(HasSubstr("revision"))));
}

TEST_F(PullTest, SaysThatATokenIsNeeded) {
  hub_.token = "secret";
  EXPECT_THAT(error_of([&] { pull_default(); }), AllOf(HasSubstr("invalid_argument"), HasSubstr("HF_TOKEN"),
                                                       HasSubstr("401"), HasSubstr("restricted")));
  ::setenv("HF_TOKEN", "secret", 1);
  EXPECT_THAT(pull_default().files, SizeIs(3));
}

TEST_F(PullTest, TokenStaysWithTheEndpoint) {
  RepositoryOptions with_token = options();
  with_token.token = "secret";
  pull_repository("org/name", with_token);
  EXPECT_THAT(hub_.requests("/resolve/"), Each(Field(&FakeHub::Request::authorization, "Bearer secret")));
  const auto elsewhere = hub_.requests("/blob/");
  ASSERT_THAT(elsewhere, SizeIs(1));
  EXPECT_TRUE(elsewhere[0].is_second_host);
  EXPECT_EQ(elsewhere[0].authorization, "");
}

TEST_F(PullTest, RefusesNamesThatLeaveTheFolder) {
  for (const std::string name : {"../evil.json", "/etc/evil.json", "a/../../evil.json", "a//b.json", ".", "",
                                 "a\\..\\b.json", "a\nb.json", "./config.json"}) {
    SCOPED_TRACE(name);
    hub_.files = {{name, {"x"}}, {"model.safetensors", {"y", true}}};
    EXPECT_THAT(error_of([&] { pull_default(); }),
                AllOf(HasSubstr("invalid_artifact"), HasSubstr("file name")));
    EXPECT_FALSE(fs::exists(root()));
  }
}

TEST_F(PullTest, RefusesListingsThatCannotBeRight) {
  const std::string a(40, 'a');
  const std::vector<std::string> listings = {
      "not json",
      "[]",
      R"({"sha": "../../x", "siblings": []})",
      R"({"sha": ")" + a + R"("})",
      R"({"sha": ")" + a + R"(", "siblings": [{}]})",
      R"({"sha": ")" + a + R"(", "siblings": [{"rfilename": "a", "size": -1, "blobId": ")" + a + R"("}]})",
      R"({"sha": ")" + a + R"(", "siblings": [{"rfilename": "a", "size": 1, "blobId": "../x"}]})",
      R"({"sha": ")" + a + R"(", "siblings": [{"rfilename": "a", "size": 1}]})",
      R"({"sha": ")" + a + R"(", "siblings": [{"rfilename": "a", "lfs": {"sha256": 7, "size": 1}}]})",
  };
  for (const std::string& listing : listings) {
    hub_.listing_override = listing;
    EXPECT_THAT(error_of([&] { pull_default(); }),
                AllOf(HasSubstr("invalid_artifact"), HasSubstr("[pull.listing]"), HasSubstr("/api/models/")))
        << listing;
  }
}

TEST_F(PullTest, RefusesMalformedNames) {
  for (const std::string name : {"", "name", "org/", "/name", "org/na me", "../name", "org/..", "a/b/c",
                                 "org/name@", "org/name@../x", "org/a--b", "org/name@main@x/../y"}) {
    EXPECT_THAT(error_of([&] { pull_repository(name, options()); }), HasSubstr("invalid_argument [pull."))
        << name;
  }
  EXPECT_THAT(hub_.requests(), IsEmpty());
}

TEST_F(PullTest, StalledServerEndsInAnErrorWithinTheTimeout) {
  hub_.is_stalling = true;
  RepositoryOptions impatient = options();
  impatient.timeout_s = 0.3;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(error_of([&] { pull_repository("org/name", impatient); }),
              AllOf(HasSubstr("resource_exhausted"), HasSubstr("stalled")));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(4));
}

TEST_F(PullTest, CancellationClosesTheConnection) {
  hub_.is_stalling = true;
  RepositoryOptions cancelled = options();
  cancelled.timeout_s = 60.0;
  std::stop_source stop;
  cancelled.cancel = stop.get_token();
  std::jthread trigger([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    stop.request_stop();
  });
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(error_of([&] { pull_repository("org/name", cancelled); }), HasSubstr("cancelled"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(4));
}

TEST_F(PullTest, TriesAgainWhenTheServerIsBusy) {
  hub_.busy = 1;
  EXPECT_THAT(error_of([&] { pull_default(); }), AllOf(HasSubstr("resource_exhausted"), HasSubstr("503")));
  hub_.busy = 1;
  RepositoryOptions patient = options();
  patient.attempts = 2;
  EXPECT_THAT(pull_repository("org/name", patient).files, SizeIs(3));
}

TEST_F(PullTest, UnreachableServerIsNamed) {
  RepositoryOptions nowhere = options();
  nowhere.endpoint = "http://127.0.0.1:1";
  EXPECT_THAT(error_of([&] { pull_repository("org/name", nowhere); }),
              AllOf(HasSubstr("resource_exhausted"), HasSubstr("http://127.0.0.1:1/api/models/org/name"),
                    HasSubstr("cannot connect")));
  nowhere.endpoint = "ftp://127.0.0.1";
  EXPECT_THAT(error_of([&] { pull_repository("org/name", nowhere); }), HasSubstr("invalid_argument"));
}

TEST_F(PullTest, MalformedEndpointsAreRefusedAtOnce) {
  RepositoryOptions nowhere = options();
  nowhere.attempts = 5;
  for (const std::string endpoint :
       {"127.0.0.1", "ftp://127.0.0.1", "http://", "http://:80", "http://a b", "http://127.0.0.1:port",
        "http://127.0.0.1:", "http://127.0.0.1:0", "http://127.0.0.1:65536", "http://127.0.0.1:99999999999",
        "http://a:1:2", "http://[::1", "http://[]", "http://[::1]x", "http://user@127.0.0.1",
        "http://127.0.0.1:1?x", "http://127.0.0.1:1#x", "http://127.0.0.1\n"}) {
    nowhere.endpoint = endpoint;
    const auto start = std::chrono::steady_clock::now();
    EXPECT_THAT(error_of([&] { pull_repository("org/name", nowhere); }), HasSubstr("invalid_argument"))
        << endpoint;
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(300)) << endpoint;
  }
  nowhere.attempts = 1;
  for (const std::string endpoint : {"http://[::1]:1", "HTTP://LocalHost:1/hub/"}) {
    nowhere.endpoint = endpoint;
    EXPECT_THAT(error_of([&] { pull_repository("org/name", nowhere); }), HasSubstr("resource_exhausted"))
        << endpoint;
  }
}

TEST_F(PullTest, ProgressCountsAllFiles) {
  std::vector<PullProgress> seen;
  RepositoryOptions observed = options();
  observed.progress = [&](const PullProgress& progress) { seen.push_back(progress); };
  const PulledRepository pulled = pull_repository("org/name", observed);
  ASSERT_FALSE(seen.empty());
  for (std::size_t i = 1; i < seen.size(); ++i) EXPECT_GE(seen[i].done_bytes, seen[i - 1].done_bytes);
  EXPECT_THAT(seen, Each(Field(&PullProgress::total_bytes, pulled.total_bytes)));
  EXPECT_EQ(seen.back().done_bytes, pulled.total_bytes);
}

TEST_F(PullTest, ProgressThatThrowsEndsThePullAndKeepsThePart) {
  RepositoryOptions observed = options();
  observed.progress = [](const PullProgress&) { throw Error(ErrorKind::kCancelled, "enough"); };
  EXPECT_EQ(error_of([&] { pull_repository("org/name", observed); }), "cancelled enough");
  EXPECT_THAT(pull_default().files, SizeIs(3));
}

TEST_F(PullTest, TwoPullsAtOnceBringEveryFileOnce) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] { EXPECT_THAT(pull_default().files, SizeIs(3)); });
  }
  threads.clear();
  EXPECT_THAT(hub_.requests("/resolve/"), SizeIs(3));
}

TEST_F(PullTest, PrefersSafetensorsAndSaysWhatItSkips) {
  hub_.files["model-Q4_0.gguf"] = {"g", true};
  hub_.files["pytorch_model.bin"] = {"p", true};
  hub_.files["onnx/model.onnx"] = {"o", true};
  hub_.files["consolidated.safetensors"] = {"c", true};
  hub_.files["README.md"] = {"r"};
  const PulledRepository pulled = pull_default();
  EXPECT_THAT(pulled.files, UnorderedElementsAre("config.json", "tokenizer.json", "model.safetensors"));
  std::vector<std::string> skipped;
  for (const SkippedFile& file : pulled.skipped) skipped.push_back(file.name);
  EXPECT_THAT(skipped, UnorderedElementsAre("model-Q4_0.gguf", "pytorch_model.bin", "onnx/model.onnx",
                                            "consolidated.safetensors", "README.md"));
}

TEST_F(PullTest, ChoosesAmongGgufFiles) {
  hub_.files = {{"tiny-Q4_0.gguf", {"4", true}},
                {"tiny-Q8_0-00001-of-00002.gguf", {"8", true}},
                {"tiny-Q8_0-00002-of-00002.gguf", {"88", true}}};
  EXPECT_THAT(error_of([&] { pull_default(); }),
              AllOf(HasSubstr("invalid_argument"), HasSubstr("tiny-Q4_0.gguf"), HasSubstr("--file")));
  RepositoryOptions choice = options();
  choice.file = "q8_0";
  EXPECT_THAT(pull_repository("org/name", choice).files,
              ElementsAre("tiny-Q8_0-00001-of-00002.gguf", "tiny-Q8_0-00002-of-00002.gguf"));
  choice.file = "Q6_K";
  EXPECT_THAT(error_of([&] { pull_repository("org/name", choice); }),
              AllOf(HasSubstr("no GGUF file that fits 'Q6_K'"), HasSubstr("tiny-Q4_0.gguf")));
  choice.file = "tiny";
  EXPECT_THAT(error_of([&] { pull_repository("org/name", choice); }),
              HasSubstr("several GGUF files that fit 'tiny'"));
  hub_.files = {{"tiny-Q4_0.gguf", {"4", true}}};
  EXPECT_THAT(pull_default().files, ElementsAre("tiny-Q4_0.gguf"));
  hub_.files = {{"config.json", {"{}"}}};
  EXPECT_THAT(error_of([&] { pull_default(); }), HasSubstr("neither safetensors nor GGUF"));
  hub_.files = {{"model.safetensors", {"s", true}}};
  EXPECT_THAT(
      error_of([&] { pull_repository("org/name", choice); }),
      AllOf(HasSubstr("invalid_argument"), HasSubstr("holds no GGUF file"), HasSubstr("'tiny' (--file)")));
}

TEST_F(PullTest, TextLevelPullReturnsTheSnapshotAndNotices) {
  ::setenv("HF_HUB_CACHE", cache_.c_str(), 1);
  hub_.files["README.md"] = {"r"};
  std::vector<std::string> notices;
  PullOptions face;
  face.endpoint = hub_.url();
  face.notice = [&](const std::string& line) { notices.push_back(line); };
  EXPECT_EQ(pull("org/name", face), (root() / "snapshots" / hub_.commit).string());
  EXPECT_THAT(notices, ElementsAre(HasSubstr("README.md")));
  ::unsetenv("HF_HUB_CACHE");
}

}  // namespace
}  // namespace tessera::artifacts
