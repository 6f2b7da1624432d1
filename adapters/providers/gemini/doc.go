// Package gemini speaks the generateContent wire: to Google's Gemini API and to the servers that imitate it.
//
// A finish reason makes an answer complete, or a prompt that was blocked; the wire has no other end marker. A stream that
// ends without either is a failed attempt. Content behind a finish reason takes it back until the next one.
//
// # Signatures
//
// The model signs parts of any kind (thoughtSignature), mostly the first call of an answer or an empty text at its end.
// A signed part is a block of its own and goes back as it came, to the same provider and model. To any other model, or
// where the part would change (U+0000), the part goes without its signature, and thinking not at all. Thinking without a
// signature is a summary for people and stays here.
//
// Models from Gemini 3 on refuse answers whose first call is not signed. The calls of other models, and those whose
// signature could not go back, carry the text that Google documents for this in its place.
package gemini
