// Package openai speaks the Chat Completions wire: to OpenAI itself and to the many servers that imitate it
// (OpenRouter, vLLM, Ollama, llama.cpp and others), with the liberties that those take.
//
// The finish reason makes an answer complete, not the [DONE] line: a stream without one is a failed attempt. What a
// backend leaves ambiguous is an error, never a guess.
package openai
