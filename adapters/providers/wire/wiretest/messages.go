package wiretest

import "github.com/keel-agent/keel/domain"

// What a kernel presents, in short. Calls are of the tool f, and so are results.

// User returns an input.
func User(blocks ...domain.Block) domain.Message {
	return domain.Message{Role: domain.RoleUser, Content: blocks}
}

// Result returns the result of the call with an id.
func Result(id string, blocks ...domain.Block) domain.Message {
	return domain.Message{Role: domain.RoleTool, CallID: id, ToolName: "f", Content: blocks}
}

// Text returns a text.
func Text(s string) domain.Block { return domain.Block{Type: domain.TextBlock, Text: s} }

// Thinking returns thinking with a signature, "" for none.
func Thinking(s, signature string) domain.Block {
	return domain.Block{Type: domain.ThinkingBlock, Thinking: s, Signature: signature}
}

// Call returns a call with an id, and arguments or the text that was no object.
func Call(id, args, raw string) domain.Block {
	return domain.Block{Type: domain.CallBlock, ID: id, ProviderID: "call_0", Name: "f", Arguments: args, RawArguments: raw}
}

// Image returns an image in base64.
func Image(mimeType, data string) domain.Block {
	return domain.Block{Type: domain.ImageBlock, MimeType: mimeType, Data: data}
}
