// Package anthropic speaks the Messages wire: to Anthropic itself and to the servers that imitate it.
//
// The stop reason makes an answer complete, not message_stop: a stream without one is a failed attempt. What a backend
// leaves ambiguous is an error, never a guess.
//
// # Thinking
//
// A signature proves the exact text of a thinking block to the model that wrote it, and to no other. So a signed block
// goes back as it came, to the same provider and model, and is left out everywhere else; a block without a signature is
// always left out. Newer models sign thinking whose text they keep to themselves: such a block has a signature alone.
//
// Redacted thinking is opaque data in place of a text. In the ledger it is a thinking block without text whose signature
// is "redacted_thinking:" and the data. Signatures are base64, so none begins like that.
package anthropic
