package runner_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/app/runner"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// credentials are those of one test: answers in their order, the last one for ever.
type credentials struct {
	asked   []string
	answers []func() (ports.Confidential, error)
}

func (c *credentials) Credential(_ context.Context, tenant, provider string) (ports.Confidential, error) {
	answer := c.answers[min(len(c.asked), len(c.answers)-1)]
	c.asked = append(c.asked, tenant+" "+provider)
	return answer()
}

// port is c as the runner takes it.
func (c *credentials) port() runner.Credentials {
	if c == nil {
		return nil
	}
	return c
}

func brings(key string) func() (ports.Confidential, error) {
	return func() (ports.Confidential, error) { return ports.NewConfidential(key), nil }
}

func fails(err error) func() (ports.Confidential, error) {
	return func() (ports.Confidential, error) { return ports.Confidential{}, err }
}

func TestRequestsCarryTheTenantsCredential(t *testing.T) {
	play(t, func(w *world) {
		w.credentials = &credentials{answers: []func() (ports.Confidential, error){
			fails(ports.ErrUnavailable), brings("first"), fails(nil), brings("third"),
		}}
		w.script(calls("count"), text("done"), text("again"))
		w.start()
		w.say("hello")
		w.settled()
		w.say("more")
		w.settled()
		var keys []string
		for _, r := range w.provider.requests {
			keys = append(keys, r.Credential.Reveal())
		}
		require.Equal(t, []string{"first", "", "third"}, keys, "looked up for each request, waited for while the store is away")
		require.Equal(t, "default "+w.provider.Name(), w.credentials.asked[0])
	})
}

// A credential that there is but cannot be read is not replaced by the server's own; the run says why.
func TestUnreadableCredentialsFailTheRun(t *testing.T) {
	play(t, func(w *world) {
		broken := errors.New(`the secret "x.api_key" is sealed under the key "old", which this server does not have`)
		w.credentials = &credentials{answers: []func() (ports.Confidential, error){fails(broken)}}
		w.script(text("never"))
		w.start()
		out := w.say("hello")
		w.settled()
		require.Empty(t, w.provider.requests)
		run, err := w.store.Runs().Get(context.Background(), w.ref, out.Event.RunID)
		require.NoError(t, err)
		require.Equal(t, domain.StatusFailed, run.Status)
		require.Contains(t, run.Error, broken.Error())
	})
}

// A panic that prints all it can of the request tells no credential, and the ledger keeps what it tells.
func TestPanicsTellNoCredential(t *testing.T) {
	play(t, func(w *world) {
		w.credentials = &credentials{answers: []func() (ports.Confidential, error){brings("sk-canary-in-a-panic")}}
		w.script(func(_ context.Context, req ports.ModelRequest, _ func(ports.Delta)) (ports.Reply, error) {
			panic(fmt.Sprintf("%v %+v %#v %s", req, &req, req, req.Credential))
		})
		w.start()
		w.say("hello")
		w.settled()
		require.Contains(t, w.text(), "internal error")
		require.NotContains(t, w.text(), "canary")
	})
}
