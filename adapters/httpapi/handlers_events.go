package httpapi

import (
	"net/http"
	"strconv"

	"github.com/keel-agent/keel/domain"
)

func (a *api) submitInput(w http.ResponseWriter, r *http.Request, ref domain.SessionRef) error {
	input, err := a.readObject(w, r)
	if err != nil {
		return err
	}
	out, err := a.Service.SubmitInput(r.Context(), ref, input)
	if err != nil {
		return err
	}
	writeJSON(w, createdStatus(out), toInput(out))
	return nil
}

func (a *api) appendEvent(w http.ResponseWriter, r *http.Request, ref domain.SessionRef) error {
	envelope, err := a.readEnvelope(w, r)
	if err != nil {
		return err
	}
	out, err := a.Service.AppendEvent(r.Context(), ref, envelope)
	if err != nil {
		return err
	}
	writeJSON(w, createdStatus(out), toInput(out))
	return nil
}

func (a *api) listEvents(w http.ResponseWriter, r *http.Request, ref domain.SessionRef) error {
	if err := checkQuery(r, "after", "limit"); err != nil {
		return err
	}
	cursor, err := after(r)
	if err != nil {
		return err
	}
	n, err := limit(r)
	if err != nil {
		return err
	}
	events, more, err := a.Service.Events(r.Context(), ref, cursor, n)
	if err != nil {
		return err
	}
	writeBytes(w, http.StatusOK, "application/json", pageJSON(events, cursor, more))
	return nil
}

// pageJSON returns {"events":[…],"cursor":…,"hasMore":…}. Each event is spelled as in its stream frame.
func pageJSON(events []domain.Event, cursor domain.Seq, more bool) []byte {
	const around = 200 // about what stands around a payload
	size := around
	for _, e := range events {
		size += len(e.Payload.String()) + around
	}
	dst := append(make([]byte, 0, size), `{"events":[`...)
	for i, e := range events {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = e.AppendJSON(dst)
		cursor = e.Seq
	}
	dst = append(dst, `],"cursor":`...)
	dst = strconv.AppendInt(dst, int64(cursor), 10)
	dst = append(dst, `,"hasMore":`...)
	dst = strconv.AppendBool(dst, more)
	return append(dst, '}', '\n')
}

func (a *api) streamEvents(w http.ResponseWriter, r *http.Request, ref domain.SessionRef) error {
	cursor, err := resumeAt(r)
	if err != nil {
		return err
	}
	partials := r.URL.Query().Get("partials")
	return a.Streams.Serve(w, r, ref, cursor, partials == "1" || partials == "true")
}

func (a *api) listMessages(w http.ResponseWriter, r *http.Request, ref domain.SessionRef) error {
	n, newest, err := messagesQuery(r)
	if err != nil {
		return err
	}
	read := a.Service.Messages
	if newest {
		read = a.Service.NewestMessages
	}
	entries, waiting, next, err := read(r.Context(), ref, r.URL.Query().Get("cursor"), n)
	if err != nil {
		return err
	}
	list := listJSON[messageJSON]{Items: make([]messageJSON, 0, len(entries)), NextCursor: next}
	for _, e := range entries {
		list.Items = append(list.Items, toMessage(e, waiting))
	}
	writeJSON(w, http.StatusOK, list)
	return nil
}
