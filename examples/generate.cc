// The smallest program that uses Tessera: continues a prompt and streams the text.
//   generate [MODEL [PROMPT]]
#include <iostream>
#include <string>

#include "tessera/engine.h"

int main(int argc, char** argv) {
  const std::string model = argc > 1 ? argv[1] : "default";
  const std::string prompt = argc > 2 ? argv[2] : "What is the capital of France?";
  try {
    tessera::Engine engine({.model = model});

    tessera::GenerationRequest request;
    request.options.max_tokens = 64;
    if (engine.chat_template() != nullptr) {
      request.messages.push_back({"user", prompt});
    } else {
      request.prompt = prompt;  // a model without a chat template continues plain text
    }

    const auto result = engine.generate(
        request, [](const tessera::TokenEvent& event) { std::cout << event.text << std::flush; });
    std::cout << '\n';
    std::cerr << result.usage.completion_tokens << " tokens, " << result.timings.generation_tokens_per_s
              << " tokens/s, finished by " << tessera::finish_reason_name(result.finish_reason) << '\n';
  } catch (const tessera::Error& error) {
    std::cerr << "generate: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
