/* The C ABI of the text crate: tokenizers and chat templates. Only tessera/text/ includes this; its
 * C++ face is tessera/tokenizer.h and tessera/chat.h.
 *
 * Conventions
 * - A function that can fail returns a tessera_text_code; on failure *error holds a one-line UTF-8
 *   message that the caller frees, and the other outputs are untouched. No call unwinds or aborts on
 *   bad input: a panic inside becomes an error.
 * - A slice is borrowed for the call. Its data may be NULL only where its size is 0.
 * - Buffers are owned by the receiver and freed with the function of their type. Freeing a zeroed
 *   buffer or a NULL handle does nothing.
 * - Handles are immutable: any number of threads may use one at the same time. */
#ifndef TESSERA_TEXT_H_
#define TESSERA_TEXT_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The categories of tessera::ErrorKind. */
typedef enum {
  TESSERA_TEXT_OK = 0,
  TESSERA_TEXT_INVALID_ARGUMENT = 1,
  TESSERA_TEXT_INVALID_ARTIFACT = 2,
  TESSERA_TEXT_UNSUPPORTED = 3,
  TESSERA_TEXT_RESOURCE_EXHAUSTED = 4,
  TESSERA_TEXT_INTERNAL = 5
} tessera_text_code;

typedef struct {
  const char* data;
  size_t size; /* bytes */
} tessera_text_slice;

typedef struct {
  char* data;
  size_t size; /* bytes */
} tessera_text_buffer;

typedef struct {
  uint32_t* data;
  size_t size; /* ids */
} tessera_text_ids;

/* Frees what a call returned and zeroes the buffer. */
void tessera_text_free_buffer(tessera_text_buffer* buffer);
void tessera_text_free_ids(tessera_text_ids* ids);

/* ---- tokenizers ---- */

typedef struct tessera_text_tokenizer tessera_text_tokenizer;

/* Reads a tokenizer.json; tokenizer_config is the text of tokenizer_config.json or empty.
 * Truncation, padding and dropout of the file are switched off.
 * Fails with INVALID_ARTIFACT on a malformed file, with UNSUPPORTED on a model other than BPE and
 * Unigram and on a decoder that does not act on single tokens (WordPiece, CTC, none). */
tessera_text_code tessera_text_tokenizer_from_json(tessera_text_slice tokenizer_json,
                                                   tessera_text_slice tokenizer_config,
                                                   tessera_text_tokenizer** tokenizer,
                                                   tessera_text_buffer* error);

/* The fields tokenizer.ggml.* of a GGUF file. Absent arrays have size 0, absent strings are empty. */
typedef struct {
  tessera_text_slice model; /* "gpt2" or "llama" */
  tessera_text_slice pre;   /* name of the pre-tokenizer, for gpt2 */
  const tessera_text_slice* tokens;
  size_t n_tokens;
  const float* scores;
  size_t n_scores;
  const int32_t* token_types; /* 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte */
  size_t n_token_types;
  const tessera_text_slice* merges; /* "left right" */
  size_t n_merges;
  int32_t add_bos, add_eos, add_space_prefix;             /* 0 or 1; negative where the file says nothing */
  int64_t bos_id, eos_id, eot_id, eom_id, unk_id, pad_id; /* negative where there is none */
} tessera_text_gguf_vocabulary;

/* Builds a tokenizer from a GGUF vocabulary.
 * Fails with INVALID_ARTIFACT where the fields contradict each other, with UNSUPPORTED on another
 * model or pre-tokenizer, naming the supported ones. */
tessera_text_code tessera_text_tokenizer_from_gguf(const tessera_text_gguf_vocabulary* vocabulary,
                                                   tessera_text_tokenizer** tokenizer,
                                                   tessera_text_buffer* error);

void tessera_text_tokenizer_free(tessera_text_tokenizer* tokenizer);

/* Text to ids. Bytes that are not UTF-8 count as U+FFFD, one per maximal undecodable part, as
 * Python's bytes.decode(errors="replace") reads them. add_special applies the tokenizer's
 * post-processor (BOS); without parse_special, special tokens spelled in the text are plain text.
 * Fails with INVALID_ARGUMENT on more than 500000 white-space characters in a row. */
tessera_text_code tessera_text_encode(const tessera_text_tokenizer* tokenizer, tessera_text_slice text,
                                      bool add_special, bool parse_special, tessera_text_ids* ids,
                                      tessera_text_buffer* error);

/* What decoding needs; the pointers live as long as the tokenizer. The text of a sequence of ids is
 * the bytes of its tokens joined and read as UTF-8, after dropping
 * - one leading space, if strips_leading_space, and
 * - every space of the first token that is not skipped, if first_token_drops_spaces. */
typedef struct {
  size_t vocab_size; /* one more than the largest id */
  const uint8_t* bytes;
  const uint64_t* offsets; /* vocab_size + 1 of them; token i is bytes[offsets[i], offsets[i + 1]) */
  const uint8_t* special;  /* vocab_size flags, 1 for special tokens */
  bool strips_leading_space;
  bool first_token_drops_spaces;
  int64_t bos_id, eos_id;  /* negative where there is none */
  const uint32_t* end_ids; /* ids that end a turn or a text, ascending */
  size_t n_end_ids;
} tessera_text_vocabulary;

void tessera_text_tokenizer_vocabulary(const tessera_text_tokenizer* tokenizer,
                                       tessera_text_vocabulary* vocabulary);

/* The spelling of a named special token ("bos_token", "eos_token", ...); empty where there is none.
 * The slice lives as long as the tokenizer. */
tessera_text_slice tessera_text_named_token(const tessera_text_tokenizer* tokenizer, tessera_text_slice name);

/* The id of the token with this spelling in the vocabulary, or -1. */
int64_t tessera_text_token_id(const tessera_text_tokenizer* tokenizer, tessera_text_slice token);

/* ---- chat templates ---- */

typedef struct tessera_text_template tessera_text_template;

/* Compiles a chat template (Jinja, with trim_blocks and lstrip_blocks). The tokenizer gives
 * bos_token and the like and need not outlive the call.
 * Fails with UNSUPPORTED on an empty source, which stands for a model without a template, with INVALID_ARTIFACT on a syntax error. */
tessera_text_code tessera_text_template_new(tessera_text_slice source,
                                            const tessera_text_tokenizer* tokenizer,
                                            tessera_text_template** chat_template,
                                            tessera_text_buffer* error);

void tessera_text_template_free(tessera_text_template* chat_template);

typedef struct {
  tessera_text_slice role;
  tessera_text_slice content;
  tessera_text_slice fields_json; /* JSON object over role and content (tool_calls, ...), or empty */
} tessera_text_message;

typedef struct {
  bool add_generation_prompt;
  tessera_text_slice tools_json;  /* JSON array, or empty */
  tessera_text_slice kwargs_json; /* JSON object of further variables, or empty */
  int64_t now_s;                  /* for strftime_now, seconds since 1970; negative is the present */
} tessera_text_render_options;

/* Pairs of byte offsets [begin, end) into the text, ascending. */
typedef struct {
  uint64_t* data;
  size_t size; /* numbers: twice the ranges */
} tessera_text_ranges;

void tessera_text_free_ranges(tessera_text_ranges* ranges);

/* Renders a conversation. generation receives the ranges of {% generation %} blocks.
 * Fails with INVALID_ARGUMENT and the template's own words where it raises, or where it cannot handle
 * the messages; with RESOURCE_EXHAUSTED beyond the limits on work (about four million steps) and
 * output (64 MiB). */
tessera_text_code tessera_text_template_render(const tessera_text_template* chat_template,
                                               const tessera_text_message* messages, size_t n_messages,
                                               const tessera_text_render_options* options,
                                               tessera_text_buffer* text, tessera_text_ranges* generation,
                                               tessera_text_buffer* error);

#ifdef __cplusplus
}
#endif

#endif /* TESSERA_TEXT_H_ */
