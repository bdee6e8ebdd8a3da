// Typed, bounded access to the fields of a configuration object. Only .cc files include it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace tessera::artifacts {

/// One JSON object whose fields are read by name. A field that is absent or null is "not there".
/// All readers throw InvalidArtifact naming file and field when a field has the wrong type or leaves
/// its bounds. Keeps references: object and `origin` must outlive it.
class JsonFields {
 public:
  /// `where` is the "[area.function]" tag, `origin` the file, `path` the object inside it ("" = root).
  JsonFields(const nlohmann::json& object, const char* where, const std::string& origin, std::string path);

  const nlohmann::json& object() const { return object_; }

  /// The value, or null when it is not there.
  const nlohmann::json* find(const char* key) const;
  /// The object under `key`, absent when it is not there.
  std::optional<JsonFields> nested(const char* key) const;

  std::optional<int64_t> integer(const char* key, int64_t least, int64_t most) const;
  std::optional<double> number(const char* key) const;
  std::optional<bool> boolean(const char* key) const;
  std::optional<std::string> string(const char* key) const;
  /// A list of at most `most` numbers.
  std::optional<std::vector<double>> numbers(const char* key, std::size_t most) const;

  /// The same, and the field must be there.
  int64_t required_integer(const char* key, int64_t least, int64_t most) const;

  /// The start of a message about `key`.
  std::string at(const std::string& key) const;

 private:
  const nlohmann::json& object_;
  const char* where_;
  const std::string& origin_;
  std::string path_;
};

/// An integer within bounds; `at` begins the message.
int64_t checked_integer(const nlohmann::json& value, int64_t least, int64_t most, const std::string& at);

}  // namespace tessera::artifacts
