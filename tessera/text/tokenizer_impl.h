// What a Tokenizer handle shares; for the files of this folder.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tessera/text/rust_call.h"
#include "tessera/tokenizer.h"

namespace tessera {

struct Tokenizer::Impl {
  struct Free {
    void operator()(tessera_text_tokenizer* tokenizer) const { tessera_text_tokenizer_free(tokenizer); }
  };

  std::string origin;
  std::unique_ptr<tessera_text_tokenizer, Free> rust;
  tessera_text_vocabulary vocabulary;  // points into `rust`

  /// Throws InvalidArgument for an id outside of the vocabulary.
  void check_id(int32_t id) const;
  /// REQUIRES: check_id(id) passes.
  std::string_view bytes_of(int32_t id) const;
  bool is_special(int32_t id) const { return vocabulary.special[id] != 0; }
};

}  // namespace tessera
