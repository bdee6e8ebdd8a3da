#include "tessera/engine.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "tessera/artifacts/tokenizer_files.h"
#include "tessera/base/boundary.h"
#include "tessera/base/check.h"
#include "tessera/base/thread_pool.h"
#include "tessera/execution/channel.h"
#include "tessera/execution/generation.h"
#include "tessera/execution/sequence.h"
#include "tessera/execution/worker.h"
#include "tessera/models/load.h"

namespace tessera {
namespace {

constexpr const char* kWhere = "[execution.engine]";

}  // namespace

const char* finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kCancelled: return "cancelled";
  }
  return "stop";
}

struct Engine::Impl {
  explicit Impl(const ModelOptions& options)
      : Impl(options,
             models::open_model(options.model, std::make_shared<base::ThreadPool>(options.threads))) {}

  Impl(const ModelOptions& options, const models::OpenModel& open)
      : Impl(options, open, artifacts::read_tokenizer_source(open.files)) {}

  Impl(const ModelOptions& options, const models::OpenModel& open, const TokenizerSource& source)
      : info(models::describe(open, options.precision)),
        tokenizer(Tokenizer::load(source)),
        chat_template(load_chat_template(source, tokenizer)),
        model(worker.call(
            [&] { return base::with_errors(kWhere, [&] { return models::load_model(open, options); }); })) {
    context_length = model->composition().context_length;
    vocab_size = model->config().vocab_size;
    end_tokens = info.eos_token_ids;
    for (const int32_t token : tokenizer.end_of_turn_ids()) end_tokens.push_back(token);
    std::sort(end_tokens.begin(), end_tokens.end());
    end_tokens.erase(std::unique(end_tokens.begin(), end_tokens.end()), end_tokens.end());
  }

  ~Impl() {
    worker.call([this] { model.reset(); });
  }

  static std::optional<ChatTemplate> load_chat_template(const TokenizerSource& source,
                                                        const Tokenizer& tokenizer) {
    try {
      return ChatTemplate::load(source, tokenizer);
    } catch (const Error& error) {
      // Only a missing template is no error: what is there must compile.
      if (error.kind() == ErrorKind::kUnsupported) return std::nullopt;
      throw;
    }
  }

  std::vector<int32_t> encode(const GenerationRequest& request) const {
    const int given =
        (request.messages.empty() ? 0 : 1) + (request.prompt ? 1 : 0) + (request.tokens.empty() ? 0 : 1);
    if (given != 1) {
      base::fail_argument("[execution.encode] ",
                          given == 0 ? "the prompt is empty" : "several prompts were given",
                          "; expected exactly one of messages, prompt and tokens");
    }
    if (!request.tokens.empty()) return request.tokens;
    if (request.prompt) {
      if (request.prompt->empty()) base::fail_argument("[execution.encode] the prompt is empty");
      return tokenizer.encode(*request.prompt);
    }
    if (!chat_template) {
      base::fail_unsupported("[execution.encode] ", info.name,
                             " has no chat template; give a raw prompt instead of messages (--raw)");
    }
    return chat_template->encode(request.messages);
  }

  execution::GenerationContext context() const {
    return {.tokenizer = tokenizer,
            .vocab_size = vocab_size,
            .context_length = context_length,
            .end_tokens = end_tokens};
  }

  ModelInfo info;
  Tokenizer tokenizer;
  std::optional<ChatTemplate> chat_template;
  execution::Worker worker;
  std::shared_ptr<const models::CausalModel> model;
  int64_t context_length = 0;
  int64_t vocab_size = 0;
  std::vector<int32_t> end_tokens;
};

struct Session::Impl {
  explicit Impl(std::shared_ptr<Engine::Impl> owner) : engine(std::move(owner)) {}
  ~Impl() {
    engine->worker.call([this] { sequence.reset(); });
  }

  std::shared_ptr<Engine::Impl> engine;
  std::unique_ptr<execution::Sequence> sequence;  // lives on the worker's thread
};

Engine::Engine(const ModelOptions& options) : impl_(std::make_shared<Impl>(options)) {}
Engine::~Engine() = default;
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;

const ModelInfo& Engine::info() const { return impl_->info; }
const Tokenizer& Engine::tokenizer() const { return impl_->tokenizer; }
const ChatTemplate* Engine::chat_template() const {
  return impl_->chat_template ? &*impl_->chat_template : nullptr;
}
int64_t Engine::context_length() const { return impl_->context_length; }

std::vector<int32_t> Engine::encode(const GenerationRequest& request) const { return impl_->encode(request); }

GenerationResult Engine::generate(const GenerationRequest& request, const TokenCallback& on_token,
                                  std::stop_token cancel) {
  return new_session().generate(request, on_token, std::move(cancel));
}

Session Engine::new_session() { return Session(std::make_unique<Session::Impl>(impl_)); }

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

GenerationResult Session::generate(const GenerationRequest& request, const TokenCallback& on_token,
                                   std::stop_token cancel) {
  Engine::Impl& engine = *impl_->engine;
  const std::vector<int32_t> prompt = engine.encode(request);
  execution::check_request(prompt, request.options, engine.context());

  std::stop_source stop;
  const std::stop_callback forward(cancel, [&stop] { stop.request_stop(); });
  execution::Channel<TokenEvent> events;
  GenerationResult result;
  std::exception_ptr failure;
  engine.worker.post([&] {
    try {
      result = base::with_errors(kWhere, [&] {
        if (!impl_->sequence) impl_->sequence = std::make_unique<execution::Sequence>(engine.model);
        return execution::run_generation(*impl_->sequence, prompt, request.options, engine.context(),
                                         stop.get_token(),
                                         [&](TokenEvent event) { events.send(std::move(event)); });
      });
    } catch (...) {
      failure = std::current_exception();
    }
    events.close();
  });

  std::exception_ptr callback_failure;
  while (const auto event = events.receive()) {
    if (!on_token || callback_failure) continue;
    try {
      on_token(*event);
    } catch (...) {
      callback_failure = std::current_exception();
      stop.request_stop();
    }
  }
  if (callback_failure) std::rethrow_exception(callback_failure);
  if (failure) std::rethrow_exception(failure);
  return result;
}

void Session::reset() {
  impl_->engine->worker.call([this] { impl_->sequence.reset(); });
}

}  // namespace tessera
