package runner_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/keel-agent/keel/domain"
)

// sentInput is what a user sent under one key, and the acknowledgement, if one came.
type sentInput struct {
	payload  domain.Payload
	text     string
	delivery domain.Delivery
	acked    *domain.Event
}

// cancelled is a user's wish that a run ends; "" means whichever was active.
type cancelled struct {
	run string
	at  time.Time
}

// user acts on one session over a link of its own and gives each command again until it is answered.
type user struct {
	*link
	t    *testing.T
	ref  domain.SessionRef
	r    *rand.Rand
	n    int
	run  string // the run that the last input was told
	mild bool   // neither cancels nor closes
}

// What one simulation is bounded by, so that it takes milliseconds.
const (
	maxSessions = 6
	maxActs     = 15 // of one user that are inputs or children
)

// open makes a session, and the user of it.
func (s *simulation) open(t *testing.T, ref domain.SessionRef, parent *domain.Parent) {
	u := &user{link: s.newLink("u-" + ref.Session), t: t, ref: ref, r: s.roll("user/"+ref.Session, 0), mild: parent != nil}
	create := domain.CreateSession{
		At: time.Now(), Request: payload(t, fmt.Sprintf(`{"id":%q}`, ref.Session)), Parent: parent,
		Info: domain.SessionInfo{System: ref.Tenant + "/" + ref.Session, Tools: []string{"effect", "safe", "stubborn"}},
	}
	if _, err := u.insist(create); err != nil {
		return
	}
	s.mu.Lock()
	s.sessions = append(s.sessions, ref)
	if parent != nil {
		s.children[ref] = time.Now()
	}
	s.mu.Unlock()
	go s.listen(ref)
	s.users.Go(u.live)
}

// insist gives a command until it is answered, or the user gives up.
func (u *user) insist(cmd domain.Command) (out domain.Outcome, err error) {
	for range 20 {
		if out, err = u.Do(context.Background(), u.ref, cmd); !errors.Is(err, errLost) {
			return out, err
		}
		time.Sleep(upTo(u.r, time.Second))
		if in, ok := cmd.(domain.SubmitInput); ok {
			in.At, in.NewRun = time.Now(), u.ids.New() // as the service does
			cmd = in
		}
	}
	return out, err
}

// live is what a user does until the window is over.
func (u *user) live() {
	u.submit()
	for {
		pause := upTo(u.r, 20*time.Second)
		if u.r.Float64() < u.s.weather.hasty {
			pause = upTo(u.r, one(u.r, time.Millisecond, 500*time.Millisecond, 4*time.Second))
		}
		time.Sleep(pause)
		if time.Since(u.s.began) > u.s.weather.window || u.n > maxActs {
			return
		}
		u.act()
	}
}

func (u *user) act() {
	switch n := u.r.IntN(40); {
	case n < 24:
		u.submit()
	case n < 27:
		_, _ = u.insist(domain.EnsureRun{At: time.Now(), NewRun: u.ids.New(), Compact: n < 26})
	case n < 32:
		u.spawn()
	case u.mild:
	case n < 37:
		u.cancel(one(u.r, u.run, ""))
	case n == 37 && u.r.IntN(3) == 0:
		u.wants("")
		_, _ = u.insist(domain.CloseSession{})
	}
}

// submit sends one input, sometimes twice or with another content under the same key.
func (u *user) submit() {
	u.n++
	key := fmt.Sprintf("%s-%d", u.ref.Session, u.n)
	in := &sentInput{text: "input " + key, delivery: one(u.r, "", domain.Queue, domain.Guide, domain.Guide)}
	with := ""
	if in.delivery != "" {
		with = fmt.Sprintf(`,"delivery":%q`, in.delivery)
	}
	if model := u.s.chosen(u.r); model != "" {
		with += fmt.Sprintf(`,"selection":{"model":%q}`, model)
	}
	in.payload = payload(u.t, fmt.Sprintf(`{"text":%q,"requestId":%q%s,"n":1e2}`, in.text, key, with))
	u.s.sending(u.ref, key, in)
	cmd := domain.SubmitInput{At: time.Now(), RequestID: key, Payload: in.payload, NewRun: u.ids.New()}
	for range 1 + u.r.IntN(4)/3 {
		out, err := u.insist(cmd)
		switch {
		case err != nil:
		case in.acked == nil:
			in.acked = out.Event
			u.run = out.Event.RunID
		case out.Created, out.Event.Seq != in.acked.Seq:
			u.s.fault("%s: the retry of %s was taken as new", u.ref.Session, key)
		}
	}
	if in.acked != nil && u.r.IntN(8) == 0 {
		cmd.Payload = payload(u.t, fmt.Sprintf(`{"text":"other","requestId":%q}`, key))
		if _, err := u.insist(cmd); !errors.Is(err, domain.ErrIdempotencyConflict) && !errors.Is(err, errLost) {
			u.s.fault("%s: another content under the key %s gave %v", u.ref.Session, key, err)
		}
	}
}

// sending keeps what is about to be sent under a key.
func (s *simulation) sending(ref domain.SessionRef, key string, in *sentInput) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inputs[ref] == nil {
		s.inputs[ref] = map[string]*sentInput{}
	}
	s.inputs[ref][key] = in
}

func (u *user) wants(run string) {
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	u.s.cancels[u.ref] = append(u.s.cancels[u.ref], cancelled{run, time.Now()})
}

func (u *user) cancel(run string) {
	u.wants(run)
	_, _ = u.insist(domain.RequestCancel{Run: run})
}

// spawn makes a child of the active run, as a tool would.
func (u *user) spawn() {
	_, run, err := u.s.store.Sessions().Get(context.Background(), u.ref)
	if err != nil || run == nil || len(u.s.refs()) >= maxSessions {
		return
	}
	u.n++
	ref := domain.SessionRef{Tenant: u.ref.Tenant, Session: fmt.Sprintf("%s.%d", u.ref.Session, u.n)}
	u.s.open(u.t, ref, &domain.Parent{Session: u.ref.Session, Run: run.ID, Call: "c"})
}
