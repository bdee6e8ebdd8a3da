// Ids and decoded texts against Hugging Face tokenizers (fixtures/tokenizer-goldens/, written by
// tools/make_tokenizer_goldens.py), and prompts against transformers (fixtures/tokenizer/).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/artifacts/default_model.h"
#include "tessera/artifacts/gguf.h"
#include "tessera/artifacts/tokenizer_files.h"
#include "tessera/base/file.h"
#include "tessera/chat.h"
#include "tessera/tokenizer.h"

namespace tessera {
namespace {

using nlohmann::json;

const std::filesystem::path kFixtures = TESSERA_FIXTURES;

json read_json(const std::filesystem::path& path) { return json::parse(base::read_file(path)); }

std::string from_base64(const std::string& text) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  uint32_t bits = 0;
  int n_bits = 0;
  for (const char c : text) {
    const std::size_t value = kAlphabet.find(c);
    if (value == std::string_view::npos) break;  // padding
    bits = bits << 6 | static_cast<uint32_t>(value);
    n_bits += 6;
    if (n_bits >= 8) {
      n_bits -= 8;
      out += static_cast<char>(bits >> n_bits & 0xFF);
    }
  }
  return out;
}

std::vector<std::string> read_texts() {
  std::vector<std::string> texts;
  for (const json& text : read_json(kFixtures / "tokenizer-goldens/texts.json")) {
    texts.push_back(text.is_string() ? text.get<std::string>()
                                     : from_base64(text.at("base64").get<std::string>()));
  }
  return texts;
}

// Every text: ids with special tokens parsed and not, whole decoding, streaming.
void expect_golden(const Tokenizer& tokenizer, const std::string& name) {
  const std::vector<std::string> texts = read_texts();
  const json golden = read_json(kFixtures / "tokenizer-goldens" / (name + ".json"));
  ASSERT_GE(texts.size(), 500U);
  ASSERT_EQ(golden.at("ids").size(), texts.size());
  int n_wrong = 0;
  for (std::size_t i = 0; i < texts.size() && n_wrong < 5; ++i) {
    SCOPED_TRACE(name + ", text " + std::to_string(i) + ": " +
                 json(texts[i]).dump(-1, ' ', true, json::error_handler_t::replace));
    const std::string key = std::to_string(i);
    const auto ids = golden.at("ids")[i].get<std::vector<int32_t>>();
    const auto plain =
        golden.at("plain").contains(key) ? golden.at("plain")[key].get<std::vector<int32_t>>() : ids;
    EXPECT_EQ(tokenizer.encode(texts[i]), ids);
    EXPECT_EQ(tokenizer.encode(texts[i], {.parse_special_tokens = false}), plain);
    if (golden.at("decoded").contains(key)) {
      const json& decoded = golden.at("decoded")[key];
      EXPECT_EQ(tokenizer.decode(ids), decoded[0].get<std::string>());
      EXPECT_EQ(tokenizer.decode(ids, {.skip_special_tokens = true}), decoded[1].get<std::string>());
    } else {
      EXPECT_EQ(tokenizer.decode(ids, {.skip_special_tokens = true}), texts[i]);
    }
    Detokenizer stream(tokenizer);
    std::string joined;
    for (const int32_t id : ids) joined += stream.append(id);
    EXPECT_EQ(joined + stream.finish(), tokenizer.decode(ids));
    n_wrong += testing::Test::HasFailure() ? 1 : 0;
  }
}

TEST(TokenizerParity, TrimmedTokenizerJson) {
  TokenizerSource source;
  source.origin = "qwen3-trimmed";
  source.tokenizer_json = base::read_file(kFixtures / "tokenizer-goldens/qwen3-trimmed.tokenizer.json");
  expect_golden(Tokenizer::load(source), "qwen3-trimmed");
}

TEST(TokenizerParity, DefaultModelGguf) {
  // TESSERA_TEST_MODEL names a copy for machines without the network.
  const char* given = std::getenv("TESSERA_TEST_MODEL");
  const std::filesystem::path path = given != nullptr ? given : artifacts::fetch_default_model();
  const TokenizerSource source = artifacts::read_tokenizer_source({.gguf = {path}});
  expect_golden(Tokenizer::load(source), "smollm2-gguf");
}

// The tokenizer that the tiny models share, and its prompts as transformers renders them.
TEST(TokenizerParity, TinyModelsAndTheirChats) {
  const TokenizerSource source = artifacts::read_tokenizer_source({.folder = kFixtures / "tokenizer"});
  const Tokenizer tokenizer = Tokenizer::load(source);
  const ChatTemplate chat = ChatTemplate::load(source, tokenizer);
  const json golden = read_json(kFixtures / "tokenizer/golden.json");
  ASSERT_FALSE(golden.at("texts").empty());
  for (const json& text : golden.at("texts")) {
    const auto ids = text.at("ids").get<std::vector<int32_t>>();
    EXPECT_EQ(tokenizer.encode(text.at("text").get<std::string>(), {.add_special_tokens = false}), ids);
    EXPECT_EQ(tokenizer.decode(ids), text.at("decoded").get<std::string>());
  }
  ASSERT_FALSE(golden.at("chats").empty());
  for (const json& conversation : golden.at("chats")) {
    std::vector<ChatMessage> messages;
    for (const json& message : conversation.at("messages")) {
      messages.push_back({message.at("role"), message.at("content"), ""});
    }
    const ChatRenderOptions options{.add_generation_prompt = conversation.at("add_generation_prompt")};
    EXPECT_EQ(chat.render(messages, options), conversation.at("rendered").get<std::string>());
    EXPECT_EQ(chat.encode(messages, options), conversation.at("ids").get<std::vector<int32_t>>());
  }
}

// ---- whole tokenizers of other models, where tools/fetch_tokenizers.sh has put them ----

struct Fetched {
  const char* name;
  const char* model;  // as GGUF files of the model have it
  const char* pre;
};

class FetchedTokenizer : public testing::TestWithParam<Fetched> {
 protected:
  void SetUp() override {
    const char* folder = std::getenv("TESSERA_TEST_TOKENIZERS");
    const std::filesystem::path path =
        std::filesystem::path(folder != nullptr ? folder : TESSERA_TEST_TOKENIZERS) /
        (std::string(GetParam().name) + ".json");
    if (!std::filesystem::exists(path))
      GTEST_SKIP() << path << " is not there; run tools/fetch_tokenizers.sh";
    source_.origin = GetParam().name;
    source_.tokenizer_json = base::read_file(path);
  }

  TokenizerSource source_;
};

TEST_P(FetchedTokenizer, Json) { expect_golden(Tokenizer::load(source_), GetParam().name); }

// The vocabulary as a converter writes it to GGUF must give the same ids as the tokenizer.json.
TEST_P(FetchedTokenizer, AsGgufVocabulary) {
  const json file = json::parse(source_.tokenizer_json);
  GgufVocabulary v;
  v.model = GetParam().model;
  v.pre = GetParam().pre;
  std::map<std::size_t, std::pair<std::string, int32_t>> tokens;
  for (const auto& [token, id] : file.at("model").at("vocab").items()) tokens[id] = {token, 1};
  for (const json& token : file.at("added_tokens")) {
    const bool is_special = token.at("special");
    tokens[token.at("id")] = {token.at("content"), is_special ? 3 : 4};
  }
  const std::size_t size = tokens.rbegin()->first + 1;
  v.token_types.assign(size, 5);
  for (std::size_t id = 0; id < size; ++id) v.tokens.push_back("[unused " + std::to_string(id) + "]");
  for (const auto& [id, token] : tokens) std::tie(v.tokens[id], v.token_types[id]) = token;
  if (v.model == "llama") {
    // SentencePiece numbers pieces by falling score, after the control and byte pieces; runs of
    // spaces come last, whatever their id.
    for (std::size_t id = 0; id < size; ++id) {
      std::string rest = v.tokens[id];
      while (rest.starts_with("▁")) rest.erase(0, std::string_view("▁").size());
      const bool is_run = rest.empty() && v.tokens[id] != "▁";
      v.scores.push_back(id < 259 ? 0.0F : is_run ? -1e9F : 259.0F - static_cast<float>(id));
      if (id >= 3 && id < 259) v.token_types[id] = 6;
    }
  } else {
    for (const json& merge : file.at("model").at("merges")) {
      v.merges.push_back(merge.is_string() ? merge.get<std::string>()
                                           : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
    }
  }
  const auto id_of = [&](const char* token) -> std::optional<int32_t> {
    const auto at = std::find(v.tokens.begin(), v.tokens.end(), token);
    if (at == v.tokens.end()) return std::nullopt;
    return static_cast<int32_t>(at - v.tokens.begin());
  };
  v.bos_id = id_of("<|begin_of_text|>") ? id_of("<|begin_of_text|>") : id_of("<s>");
  source_.tokenizer_json.clear();
  source_.gguf = v;
  expect_golden(Tokenizer::load(source_), GetParam().name);
}

INSTANTIATE_TEST_SUITE_P(All, FetchedTokenizer,
                         testing::Values(Fetched{"qwen3", "gpt2", "qwen2"},
                                         Fetched{"llama3_1", "gpt2", "llama-bpe"},
                                         Fetched{"deepseek_v3", "gpt2", "deepseek-v3"},
                                         Fetched{"llama2", "llama", ""}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tessera
