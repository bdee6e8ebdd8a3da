#include "tessera/artifacts/json_reader.h"

#include <cstddef>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "tessera/artifacts/quotes.h"
#include "tessera/base/check.h"

namespace tessera::artifacts {
namespace {

using nlohmann::json;

/// Builds the document from parse events, because nlohmann's own builder keeps the last of two
/// equal keys silently and nests without bound.
class DocumentBuilder : public nlohmann::json_sax<json> {
 public:
  explicit DocumentBuilder(DuplicateKeys duplicates) : duplicates_(duplicates) {}

  bool null() override { return add(json()); }
  bool boolean(bool value) override { return add(json(value)); }
  bool number_integer(number_integer_t value) override { return add(json(value)); }
  bool number_unsigned(number_unsigned_t value) override { return add(json(value)); }
  bool number_float(number_float_t value, const string_t&) override { return add(json(value)); }
  bool string(string_t& value) override { return add(json(std::move(value))); }
  bool binary(binary_t&) override { return refuse("binary data"); }
  bool start_object(std::size_t) override { return open(json::object()); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& value) override {
    if (duplicates_ == DuplicateKeys::kRefuse && stack_.back()->contains(value)) {
      return refuse("duplicate key " + in_quotes(value));
    }
    key_ = std::move(value);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return refuse("not valid JSON at byte " + std::to_string(position));
  }

  json take() { return std::move(root_); }
  const std::string& problem() const { return problem_; }

 private:
  static constexpr std::size_t kDeepest = 64;  // real files nest about six deep

  bool refuse(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }

  json* place(json value) {
    if (stack_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    json& parent = *stack_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    json& slot = parent[key_];
    slot = std::move(value);
    return &slot;
  }

  bool add(json value) {
    place(std::move(value));
    return true;
  }

  bool open(json container) {
    if (stack_.size() >= kDeepest) return refuse("JSON nested deeper than " + std::to_string(kDeepest));
    stack_.push_back(place(std::move(container)));
    return true;
  }

  bool close() {
    stack_.pop_back();
    return true;
  }

  DuplicateKeys duplicates_;
  json root_;
  // Pointers stay valid: a container is only grown while it is the innermost open one.
  std::vector<json*> stack_;
  std::string key_;
  std::string problem_ = "not valid JSON";
};

}  // namespace

nlohmann::json read_json(std::string_view text, const char* where, const std::string& origin,
                         DuplicateKeys duplicates) {
  DocumentBuilder builder(duplicates);
  bool is_read = false;
  try {
    is_read = json::sax_parse(text.begin(), text.end(), &builder);
  } catch (const json::exception& error) {
    base::fail_artifact(where, " ", origin, ": not valid JSON: ", in_quotes(error.what()));
  }
  if (!is_read) base::fail_artifact(where, " ", origin, ": ", builder.problem());
  return builder.take();
}

}  // namespace tessera::artifacts
