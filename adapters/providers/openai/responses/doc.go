// Package responses speaks OpenAI's Responses wire, beside Chat Completions of the package above. It asks for no state at
// the backend: every request holds the whole context and says store:false.
//
// The last event makes an answer complete: response.completed or response.incomplete. A stream without one is a failed
// attempt. Whatever the done events and the final response tell that the pieces left out is added; where they contradict
// what was shown already, the attempt has failed.
//
// # Reasoning
//
// A reasoning item is a thinking block. Its text is what people may read of it: the summary, or the reasoning itself
// where the backend tells it. Its signature is "reasoning_item:" and a JSON object with the members id, summary and
// encrypted_content just as they came; a block without encrypted content has no signature. A signed block goes back as
// this very item, to the same provider and model, and is left out everywhere else; so is one without a signature, and one
// that nothing of its answer follows, which the wire refuses.
package responses
