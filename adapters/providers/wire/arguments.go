package wire

import (
	"math"
	"strings"

	"github.com/keel-agent/keel/domain"
)

const noArguments = "{}"

// FinishArguments sorts the joined argument text of a complete tool call. Exactly one JSON object is returned as
// arguments, compact and with every value as the model spelled it; nothing at all and null mean the empty object.
// Anything else (text cut off, an object sent twice, a duplicate key, too deep, another kind of value) is returned unchanged as
// raw, and such a call must never run.
func FinishArguments(text string) (arguments, raw string) {
	switch strings.Trim(text, " \t\r\n") {
	case "", "null":
		return noArguments, ""
	}
	p, err := domain.ParsePayload([]byte(text), math.MaxInt)
	if err != nil || domain.Depth(p.String()) > domain.MaxArgumentDepth {
		return "", text
	}
	return p.String(), ""
}

// CutArguments is FinishArguments for a call of an answer that was cut off at the token cap or by a filter. There a
// missing text is no empty object but one that was never written: it is returned as a blank raw text.
func CutArguments(text string) (arguments, raw string) {
	if strings.Trim(text, " \t\r\n") == "" {
		return "", " "
	}
	return FinishArguments(text)
}
