#include "tessera/text/rust_call.h"

#include "tessera/base/check.h"

namespace tessera::text {

void check(tessera_text_code code, const OutputText& message, std::string_view area) {
  ErrorKind kind = ErrorKind::kInternal;
  switch (code) {
    case TESSERA_TEXT_OK: return;
    case TESSERA_TEXT_INVALID_ARGUMENT: kind = ErrorKind::kInvalidArgument; break;
    case TESSERA_TEXT_INVALID_ARTIFACT: kind = ErrorKind::kInvalidArtifact; break;
    case TESSERA_TEXT_UNSUPPORTED: kind = ErrorKind::kUnsupported; break;
    case TESSERA_TEXT_RESOURCE_EXHAUSTED: kind = ErrorKind::kResourceExhausted; break;
    case TESSERA_TEXT_INTERNAL: break;
  }
  base::fail(kind, area, std::string_view(message->data, message->size));
}

}  // namespace tessera::text
