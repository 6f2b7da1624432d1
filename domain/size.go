package domain

// Sizes are estimates in tokens, made without knowing a model's tokenizer: about four bytes of plain text to a token,
// three where characters are not ASCII. What a backend counts for the same request sets them right (Measure).
const (
	blockTokens   = 4     // what stands around a block
	messageTokens = 4     // what stands around a message
	imageTokens   = 1_500 // whatever an image's resolution is
)

// TextTokens estimates the tokens of s.
func TextTokens(s string) int {
	wide := 0
	for i := range len(s) {
		if s[i] >= 0x80 {
			wide++
		}
	}
	return (len(s)-wide+3)/4 + (wide+2)/3
}

// Tokens estimates the tokens of a block as a model sees it. Blocks of unknown types are not shown to any.
func (k Block) Tokens() int {
	switch k.Type {
	case TextBlock:
		return blockTokens + TextTokens(k.Text)
	case ThinkingBlock:
		return blockTokens + TextTokens(k.Thinking) + TextTokens(k.Signature)
	case CallBlock:
		return 2*blockTokens + TextTokens(k.Name) + TextTokens(k.Arguments) + TextTokens(k.RawArguments)
	case ImageBlock:
		return imageTokens
	}
	return 0
}

func tokensOf(blocks []Block) (n int) {
	for _, b := range blocks {
		n += b.Tokens()
	}
	return n
}

// Measure sets the estimate of a request beside what its backend counted. The zero value says that nothing was counted.
type Measure struct {
	Estimated int // tokens of the request's messages
	Counted   int // tokens of the whole request
}

// tokens estimates what e adds to a context.
func (e *heldEntry) tokens() int {
	switch {
	case e.Input != nil:
		return messageTokens + tokensOf(e.inputBlocks())
	case e.Answer == nil:
		return messageTokens + TextTokens(e.Summary)
	case !e.Answer.StopReason.Completed():
		return 0
	}
	n := messageTokens + tokensOf(e.Answer.Content)
	for _, out := range e.Results {
		n += e.outputTokens(out)
	}
	return n
}

// weigh adds what e weighs to the transcript's sums, or with -1 takes it from them.
func (t *Transcript) weigh(e *heldEntry, sign int) {
	t.tokens += sign * e.tokens()
	t.images += sign * e.imageBytes()
}

func (e *heldEntry) outputTokens(out *ToolOutput) int {
	if out == nil {
		return 0
	}
	return messageTokens + tokensOf(e.output(out.Content))
}

// Tokens estimates the messages of a request that presents the inputs of p.
func (t *Transcript) Tokens(p Presented) int {
	n := t.tokens
	for _, e := range t.presented(p.Seqs) {
		n += e.tokens()
	}
	return n
}

// Measured returns what a backend counted for the latest answer that tells, of those since the last compaction.
func (t *Transcript) Measured() Measure { return t.measured }
