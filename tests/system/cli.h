// What the tests of the command line program share: running it, and models to run it on.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/system/subprocess.h"

namespace tessera::test {

using Arguments = std::vector<std::string>;

inline Arguments command(const Arguments& arguments) {
  Arguments argv = {TESSERA_BINARY};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return argv;
}

inline ProcessResult run_cli(const Arguments& arguments, const std::string& input = "",
                             const Arguments& environment = {}) {
  return run_process(command(arguments), input, environment);
}

/// The folder of a tiny seeded model: its text is garbage, and the same every time.
inline std::string fixture(const std::string& name = "llama-tiny-tied") {
  return std::string(TESSERA_FIXTURES) + "/" + name;
}

/// Arguments of a generation that ignores what the tiny model thinks of its end.
inline Arguments generate(const Arguments& more, int max_tokens = 12) {
  Arguments arguments = {"generate",     "Once upon a time",         "--model",     fixture(),
                         "--max-tokens", std::to_string(max_tokens), "--ignore-eos"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

/// A copy of a model that a test may damage, removed at the end.
class ModelCopy {
 public:
  explicit ModelCopy(const std::string& name = "llama-tiny-tied") {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(testing::TempDir()) /
              ("tessera-" + std::string(test->name()) + "-" + std::to_string(getpid()));
    std::filesystem::remove_all(folder_);
    std::filesystem::copy(fixture(name), folder_);
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      std::filesystem::permissions(entry.path(), std::filesystem::perms::owner_write,
                                   std::filesystem::perm_options::add);
    }
  }
  ~ModelCopy() { std::filesystem::remove_all(folder_); }
  ModelCopy(const ModelCopy&) = delete;
  ModelCopy& operator=(const ModelCopy&) = delete;

  std::string path() const { return folder_.string(); }
  std::filesystem::path file(const std::string& name) const { return folder_ / name; }

  /// Changes one key of a JSON file; a null value removes it.
  void edit_json(const std::string& name, const std::string& key, const nlohmann::json& value) const {
    nlohmann::json json = nlohmann::json::parse(std::ifstream(file(name)));
    if (value.is_null()) {
      json.erase(key);
    } else {
      json[key] = value;
    }
    std::ofstream(file(name)) << json;
  }

 private:
  std::filesystem::path folder_;
};

/// Nothing on standard output, one line on standard error that contains `part`, and the status.
inline void expect_refused(const ProcessResult& result, int status, const std::string& part) {
  EXPECT_EQ(result.status, status) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(result.err.starts_with("tessera: ")) << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
}

/// The one JSON object a successful run printed.
inline nlohmann::json json_of(const ProcessResult& result) {
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err, "");
  const nlohmann::json json = nlohmann::json::parse(result.out, nullptr, /*allow_exceptions=*/false);
  EXPECT_FALSE(json.is_discarded()) << result.out;
  return json;
}

/// What a successful run printed.
inline std::string text_of(const ProcessResult& result) {
  EXPECT_EQ(result.status, 0) << result.err;
  return result.out;
}

}  // namespace tessera::test
