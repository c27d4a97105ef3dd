"""Side-by-side measurements against transformers, llama.cpp and vLLM; run by hand, never collected by pytest."""
