package responses

import (
	"cmp"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// incompleteReasons holds the reasons of responses that are incomplete. A reason that is not here fails the attempt.
var incompleteReasons = map[string]domain.StopReason{
	"max_output_tokens": domain.StopLength,
	"max_tokens":        domain.StopLength,
	"content_filter":    domain.StopRefusal,
}

// finish takes the last event: its name, and the response that it brings. The status of the response counts for more.
func (d *decoder) finish(name string, r response) error {
	d.about(r)
	if wire.IsError(r.Error) {
		return wire.ErrorValue(r.Error).Error()
	}
	status := wire.String(r.Status)
	if status == "" || status == "in_progress" || status == "queued" {
		status = name
	}
	var stop domain.StopReason
	switch status {
	case "completed", "done":
		stop = domain.StopEndTurn
	case "incomplete":
		reason := wire.String(wire.Object(r.Incomplete)["reason"])
		if stop = incompleteReasons[reason]; stop == "" {
			return wire.UnknownStop("incomplete_reason", reason)
		}
	case "failed", "cancelled":
		return &ports.ProviderError{Class: ports.Retryable, Code: status, Message: "the backend broke the answer off and did not say why"}
	default:
		return wire.Malformed("a response came that is not at its end")
	}
	if err := d.reconcile(wire.Array(r.Output)); err != nil {
		return err
	}
	d.Stop = stop
	return nil
}

// reconcile takes the items of the whole response. It may hold fewer than were sent: some backends leave them out.
func (d *decoder) reconcile(list []wire.Raw) error {
	settled := make(map[*output]bool, len(list))
	for i, raw := range list {
		item := wire.Members[outputItem](raw)
		t := typeOf(item)
		o := d.unsettled(settled, t, int64(i), wire.String(item.ID))
		if o == nil {
			o = d.open(t, int64(i), wire.String(item.ID))
		}
		settled[o] = true
		if err := d.settleItem(o, item); err != nil {
			return err
		}
	}
	return nil
}

// unsettled returns the item that was sent for one of the whole response: of the same kind, with its id, else at its
// place, else the first one left.
func (d *decoder) unsettled(settled map[*output]bool, t domain.BlockType, index int64, id string) *output {
	var at, first *output
	for _, o := range d.items {
		switch {
		case o.kind != t || settled[o]:
			continue
		case id != "" && o.id == id:
			return o
		case at == nil && o.index == index:
			at = o
		}
		if first == nil {
			first = o
		}
	}
	return cmp.Or(at, first)
}
