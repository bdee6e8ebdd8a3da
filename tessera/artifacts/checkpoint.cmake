# Checkpoints: the parsers' results as arrays.
tessera_library(checkpoint MLX
  SOURCES checkpoint.cc gguf_checkpoint.cc safetensors_checkpoint.cc
  DEPENDS base tensor artifacts)
