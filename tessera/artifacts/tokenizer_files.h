// What the text layer needs of a model's files, as plain data: the tokenizer's own files of a folder,
// or the vocabulary inside a GGUF file. Building a tokenizer from them is text/'s work.
#pragma once

#include <string>
#include <string_view>

#include "tessera/artifacts/model_files.h"
#include "tessera/tokenizer_source.h"

namespace tessera::artifacts {

class GgufFile;

/// Reads what a model's tokenizer and chat template are built from. In a folder the template is the
/// one of chat_template.jinja, else of chat_template.json, else of tokenizer_config.json.
/// Throws InvalidArtifact when tokenizer.json is missing or a file has the wrong form, Unsupported
/// when a folder has only a SentencePiece tokenizer.model.
TokenizerSource read_tokenizer_source(const ModelFiles& files);

/// The vocabulary in a file's metadata. Throws InvalidArtifact naming the key when there is none,
/// lists differ in length, or an id is outside the vocabulary.
GgufVocabulary read_gguf_vocabulary(const GgufFile& file);

/// The chat template in the text of a tokenizer_config.json or chat_template.json: a string, or the
/// one named "default" (else the first) of a list of {name, template}; "" when there is none.
/// Throws InvalidArtifact on a wrong form; `origin` names the file.
std::string chat_template_in(std::string_view json, const std::string& origin);

}  // namespace tessera::artifacts
