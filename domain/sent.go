package domain

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
)

// What a client may send as content. Ledgers hold more: earlier versions let any block in.

// sendable tells people which blocks a client may send.
const sendable = "an input takes blocks of the types text and image"

// checkSent returns ErrInvalidPayload, with the first block at fault, unless a model can be shown each of blocks.
func checkSent(blocks []Block) error {
	for i, b := range blocks {
		if fault := unsendable(b); fault != "" {
			at := strconv.Itoa(i)
			return ErrInvalidPayload.At("content/" + at).With("block " + at + " " + fault + "; " + sendable)
		}
	}
	return nil
}

// unsendable returns what is wrong with a block that a client sends, "" when nothing is.
func unsendable(b Block) string {
	switch {
	case b.Type == "":
		return "has no type"
	case b.Type == TextBlock && b.Text == "":
		return "has no text"
	case b.Type == TextBlock:
		return ""
	case b.Type != ImageBlock:
		return "is of the type " + strconv.Quote(clip(string(b.Type), 40))
	case b.MimeType == "":
		return "has no mimeType"
	case b.Data == "":
		return "has no data"
	}
	if _, err := base64.StdEncoding.DecodeString(b.Data); err != nil {
		return "has data that is not plain base64"
	}
	return ""
}

// Blank reports whether in holds nothing but blank texts: a model would be told that the message is empty.
func (in Input) Blank() bool {
	said := func(b Block) bool { return b.Type != TextBlock || strings.TrimSpace(b.Text) != "" }
	return strings.TrimSpace(in.Text) == "" && !slices.ContainsFunc(in.Content, said)
}
