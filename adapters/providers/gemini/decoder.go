package gemini

import (
	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// decoder turns the chunks of one answer into a reply; see wire.Decoder.
type decoder struct {
	emit  func(ports.Delta)
	names map[string]string // names of tools by the one that they have on the wire

	model    string
	index    *int64 // of the candidate that is read
	parts    []*part
	calls    int
	chunks   int
	usage    *domain.Usage
	stop     domain.StopReason
	complete bool
	size     int
}

// Event takes the data of one event.
func (d *decoder) Event(e wire.Event) (wire.Life, error) {
	if e.Data == "[DONE]" { // of imitations
		return wire.Done, nil
	}
	if e.Type == "error" {
		f, ok := wire.ReadFault([]byte(e.Data))
		if !ok {
			f = wire.Fault{Message: e.Data}
		}
		return wire.Ping, f.Error()
	}
	before := d.size
	if err := d.chunk(wire.Raw(e.Data)); err != nil {
		return wire.Ping, err
	}
	switch {
	case d.complete:
		return wire.Finished, nil
	case d.size > before:
		return wire.Alive, nil
	}
	return wire.Ping, nil
}

// Whole takes an answer that is no stream: one chunk, or the list of all.
func (d *decoder) Whole(body []byte) error {
	list := []wire.Raw{body}
	if wire.Raw(body).Kind() == '[' {
		if list = wire.Array(body); list == nil {
			return wire.Malformed("the answer is neither a stream nor a list of chunks")
		}
	}
	for _, raw := range list {
		if err := d.chunk(raw); err != nil {
			return err
		}
	}
	if !d.complete {
		return wire.Malformed("the answer is neither a stream nor whole")
	}
	return nil
}

func (d *decoder) chunk(data wire.Raw) error {
	var c chunk
	err := wire.Decode(data, &c)
	if err != nil || wire.IsError(c.Error) {
		if f, ok := wire.ReadFault(data); ok {
			return f.Error()
		}
	}
	if err != nil {
		return wire.Malformed("a chunk of the answer is not an object: " + err.Error())
	}
	d.chunks++
	if m := plainModel(wire.Clean(wire.String(c.ModelVersion))); m != "" {
		d.model = m
	}
	if u := readUsage(c.UsageMetadata); u != nil {
		d.usage = u
	}
	for _, raw := range wire.Array(c.Candidates) {
		if err := d.candidate(read[candidate](raw)); err != nil {
			return err
		}
	}
	d.blocked(wire.String(read[feedback](c.PromptFeedback).BlockReason))
	if d.size > wire.MaxReply {
		return wire.Malformed("the answer is larger than this server reads")
	}
	return nil
}

// candidate reads one of the answers that the backend offers. Only the first one that it names is read.
func (d *decoder) candidate(c candidate) error {
	index, _ := wire.Int(c.Index)
	if d.index == nil {
		d.index = &index
	}
	if *d.index != index {
		return nil
	}
	before := d.size
	for _, raw := range wire.Array(read[content](c.Content).Parts) {
		d.part(read[answerPart](raw))
	}
	if d.size > before {
		d.complete = false
	}
	return d.end(wire.String(c.FinishReason), wire.String(c.FinishMessage))
}

// Complete reports whether the answer has come to an end.
func (d *decoder) Complete() bool { return d.complete }
