package domain

import (
	"slices"
	"strings"
)

// What stands in a context in place of what was left out of it.
const (
	oldImageLeftOut = "(an image was left out)"
	refusedImage    = "(an image was left out: the model's backend refused to take it)"
	outputLeftOut   = "\n(the rest of the output was left out)"
)

const briefBytes = 400 // what remains of the text of a long output

// LeaveOutImages makes requests show a note in the place of the older half of the images that they still show, by size.
// Those of the current turn's inputs, of inputs that wait and of results that await the model stay. It reports whether
// any was left out. The ledger and people's view of it are as they were.
func (t *Transcript) LeaveOutImages() bool {
	return t.leaveOut((*heldEntry).imageBytes, func(e *heldEntry) { e.noImages = oldImageLeftOut })
}

// LeaveOutRefusedImages makes requests show a note in the place of the images of a request that presented p, after its
// backend refused one of them: of those that no backend has answered yet, as the others were taken before, else of all.
// It reports whether any was left out. The ledger and people's view of it are as they were.
func (t *Transcript) LeaveOutRefusedImages(p Presented) bool {
	gone := t.refuseWaiting(p)
	if e := t.awaited(); e != nil {
		gone = t.refuse(e) || gone
	}
	if !gone {
		for i := range t.entries {
			gone = t.refuse(&t.entries[i]) || gone
		}
	}
	t.base, t.settled = modelContext{}, 0
	return gone
}

// ShowTo says which model requests are made of from now on. Images that another one refused are shown again: this one may
// take them.
func (t *Transcript) ShowTo(model string) {
	if model == t.audience {
		return
	}
	t.audience = model
	again := false
	for i := range t.waiting {
		if w := &t.waiting[i]; w.noImages == refusedImage {
			w.noImages, again = "", true
		}
	}
	for i := range t.entries {
		if e := &t.entries[i]; e.noImages == refusedImage {
			t.weigh(e, -1)
			e.noImages, again = "", true
			t.weigh(e, 1)
		}
	}
	if again {
		t.base, t.settled = modelContext{}, 0
	}
}

func (t *Transcript) refuseWaiting(p Presented) (gone bool) {
	for _, e := range t.presented(p.Seqs) {
		if e.imageBytes() > 0 {
			i := slices.IndexFunc(t.waiting, func(w waitingInput) bool { return w.seq == e.Seq })
			t.waiting[i].noImages, gone = refusedImage, true
		}
	}
	return gone
}

// refuse takes the images of an entry away, and reports whether it showed any.
func (t *Transcript) refuse(e *heldEntry) bool {
	if e.imageBytes() == 0 {
		return false
	}
	t.weigh(e, -1)
	e.noImages = refusedImage
	t.weigh(e, 1)
	return true
}

// LeaveOutOutputs makes requests show only the beginning of the older half of the long tool outputs that they still show
// whole, by size. Results that await the model stay. It reports whether any was left out.
func (t *Transcript) LeaveOutOutputs() bool {
	return t.leaveOut((*heldEntry).outputBytes, func(e *heldEntry) { e.brief = true })
}

// leaveOut marks entries, the oldest first, until half of what can go by size is gone.
func (t *Transcript) leaveOut(size func(*heldEntry) int, mark func(*heldEntry)) bool {
	old, total := t.old(), 0
	for _, e := range old {
		total += size(e)
	}
	gone := 0
	for _, e := range old {
		n := size(e)
		if n == 0 || 2*gone >= total {
			continue
		}
		t.weigh(e, -1)
		mark(e)
		t.weigh(e, 1)
		gone += n
	}
	if gone > 0 {
		t.base, t.settled = modelContext{}, 0
	}
	return gone > 0
}

// old are the entries that the model has answered: all but the current turn's inputs, and results that await it.
func (t *Transcript) old() []*heldEntry {
	var old []*heldEntry
	awaited := t.awaited()
	for i := range t.entries {
		if e := &t.entries[i]; e != awaited && !slices.Contains(t.TurnInputs, e.Seq) {
			old = append(old, e)
		}
	}
	return old
}

// awaited is the answer whose results the model has not seen, nil when there is none. Answers that failed saw nothing.
func (t *Transcript) awaited() *heldEntry {
	for i := range slices.Backward(t.entries) {
		if e := &t.entries[i]; e.Answer != nil && e.Answer.StopReason.Completed() {
			if len(e.Results) == 0 {
				return nil
			}
			return e
		}
	}
	return nil
}

// imageBytes returns the size of the images that are shown.
func (e *heldEntry) imageBytes() (n int) {
	if e.noImages != "" {
		return 0
	}
	if e.Input != nil {
		n += imageBytesOf(e.Input.Content)
	}
	for _, out := range e.Results {
		if out != nil {
			n += imageBytesOf(out.Content)
		}
	}
	return n
}

func imageBytesOf(blocks []Block) (n int) {
	for _, b := range blocks {
		if b.Type == ImageBlock {
			n += len(b.Data)
		}
	}
	return n
}

// ImageBytes returns the size of the images of inputs and outputs that a request which presents p shows.
func (t *Transcript) ImageBytes(p Presented) int {
	n := t.images
	for _, e := range t.presented(p.Seqs) {
		n += e.imageBytes()
	}
	return n
}

// outputBytes returns the size of the long outputs that are shown whole.
func (e *heldEntry) outputBytes() (n int) {
	if e.brief {
		return 0
	}
	for _, out := range e.Results {
		if out == nil {
			continue
		}
		for _, b := range out.Content {
			if isLong(b) {
				n += len(b.Text)
			}
		}
	}
	return n
}

func isLong(b Block) bool { return b.Type == TextBlock && len(b.Text) > 2*briefBytes }

// seen returns blocks of an input or an output as models are shown them, images apart whole.
func (e *heldEntry) seen(blocks []Block) []Block {
	if e.noImages == "" {
		return blocks
	}
	seen := slices.Clone(blocks)
	for i := range seen {
		if seen[i].Type == ImageBlock && seen[i].Data != "" {
			seen[i] = Block{Type: TextBlock, Text: e.noImages}
		}
	}
	return seen
}

// output returns the blocks of a tool's output as models are shown them.
func (e *heldEntry) output(blocks []Block) []Block {
	if !e.brief {
		return e.seen(blocks)
	}
	seen := slices.Clone(e.seen(blocks))
	for i := range seen {
		if isLong(seen[i]) {
			seen[i].Text = strings.ToValidUTF8(seen[i].Text[:briefBytes], "") + outputLeftOut
		}
	}
	return seen
}
