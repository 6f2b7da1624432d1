package openai_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/openai"
	"github.com/keel-agent/keel/adapters/providers/openai/openaitest"
	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
	"github.com/keel-agent/keel/ports"
)

// described returns options that offer a tool with a description of so many characters.
func described(n int) func(*ports.ModelRequest) {
	return func(r *ports.ModelRequest) {
		r.Tools = []ports.ToolSpec{{Name: "f", Description: strings.Repeat("é", n)}}
	}
}

// TestLongDescriptions: a backend that takes no long descriptions of tools gets short ones from its refusal on, others get
// them whole.
func TestLongDescriptions(t *testing.T) {
	s := openaitest.StartLenient(t) // it is as strict as OpenAI
	p := newProvider(t, openai.Config{BaseURL: s.URL(), Model: "test-model", APIKey: key})
	s.Push(hello, hello, hello)
	for _, n := range []int{1024, 1025, 3000} {
		_, err := ask(t, p, described(n))
		require.NoError(t, err)
	}
	var lengths []int
	for _, r := range s.Requests() {
		lengths = append(lengths, strings.Count(string(r.Body), "é"))
	}
	require.Equal(t, []int{1024, 1025, 1017, 1017}, lengths)
	require.Len(t, s.Refused(), 1)

	refusal := openaitest.Error(400, openaitest.Fault("Invalid 'tools[0].function.description': string too long.", "string_above_max_length"))
	s.Push(refusal)
	_, err := ask(t, p, described(3000))
	require.Equal(t, ports.Fatal, wiretest.Fault(t, err).Class, "the same refusal twice is a fault")
}

type unreachable struct{}

func (unreachable) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("it was asked")
}

// TestTooManyTools: OpenAI is not asked with more tools than it takes; another backend says itself what it takes.
func TestTooManyTools(t *testing.T) {
	offer := func(n int) func(*ports.ModelRequest) {
		return func(r *ports.ModelRequest) {
			for i := range n {
				r.Tools = append(r.Tools, ports.ToolSpec{Name: fmt.Sprint("f", i)})
			}
		}
	}
	p := newProvider(t, openai.Config{APIKey: key, HTTPClient: &http.Client{Transport: unreachable{}}})
	_, err := ask(t, p, offer(128))
	require.Equal(t, ports.Retryable, wiretest.Fault(t, err).Class)
	_, err = ask(t, p, offer(129))
	require.Equal(t, &ports.ProviderError{
		Class: ports.Fatal, Code: "too_many_tools",
		Message: "129 tools are offered and this backend takes at most 128: name fewer in the session's tools or in the input's selection",
	}, wiretest.Fault(t, err))

	s := openaitest.StartLenient(t)
	other := newProvider(t, openai.Config{BaseURL: s.URL(), Model: "test-model", APIKey: key})
	_, err = ask(t, other, offer(129))
	require.Equal(t, ports.Fatal, wiretest.Fault(t, err).Class)
	require.Contains(t, err.Error(), "maximum length 128, but got an array with length 129")
	require.Len(t, s.Requests(), 1)
}
