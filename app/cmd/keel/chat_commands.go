package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
)

const chatHelp = `What you type is answered after the running turn. Lines that begin with / are commands:
/guide TEXT   steer the turn that is running
/cancel       end the run
/retry        make sure that a run looks at what waits for an answer
/quit         leave; the work goes on
//TEXT        say /TEXT`

// typed carries out a line.
func (c *chat) typed(line string) {
	line = strings.TrimSpace(line)
	command, rest, _ := strings.Cut(line, " ")
	switch {
	case line == "":
	case strings.HasPrefix(line, "//"):
		c.say(line[1:], "")
	case line[0] != '/':
		c.say(line, "")
	case command == "/guide" && strings.TrimSpace(rest) != "":
		c.say(strings.TrimSpace(rest), "guide")
	case line == "/cancel":
		c.give(true, c.cancelling())
	case line == "/retry":
		c.give(true, c.retry)
	case line == "/quit":
		c.quit, c.ended, c.lines = true, true, nil
	case line == "/help":
		c.screen.note(chatHelp)
	default:
		c.screen.note(fmt.Sprintf("not understood: %s; /help lists the commands", line))
	}
}

// give hands a job to the mailer.
func (c *chat) give(urgent bool, try func(ctx context.Context) (done func(), err error)) {
	c.waits++
	c.mailer.give(&job{urgent: urgent, try: try, refused: func(err error) {
		c.refused = true
		c.screen.note(err.Error())
	}})
}

// say submits an input. It is the same request however often it is tried.
func (c *chat) say(text, delivery string) {
	id := newID()
	body := map[string]any{"text": text, "requestId": id}
	c.sent[id] = false
	if delivery != "" {
		body["delivery"] = delivery
	}
	if c.selection != nil {
		body["selection"] = c.selection
	}
	c.give(false, func(ctx context.Context) (func(), error) {
		var input struct {
			Seq      int64
			Delivery string
		}
		err := c.call(ctx, http.MethodPost, body, &input, c.session, "input")
		return func() {
			delete(c.sent, id)
			c.said = append(c.said, input.Seq)
			if delivery != "" && delivery != input.Delivery {
				c.screen.note("no turn is running, so this begins one")
			}
		}, err
	})
}

// cancelling ends the run that is active when it is first tried, and no other one.
func (c *chat) cancelling() func(ctx context.Context) (func(), error) {
	run := ""
	return func(ctx context.Context) (func(), error) {
		var state sessionState
		if run == "" {
			if err := c.call(ctx, http.MethodGet, nil, &state, c.session); err != nil {
				return nil, err
			}
			if state.ActiveRun == nil {
				return func() { c.screen.note("no run to cancel") }, nil
			}
			run = state.ActiveRun.ID
		}
		err := c.call(ctx, http.MethodPost, map[string]any{"runId": run}, &state, c.session, "cancel")
		return func() { c.screen.note("asked the run to end") }, err
	}
}

func (c *chat) retry(ctx context.Context) (func(), error) {
	var answer struct{ Run *struct{ Status string } }
	err := c.call(ctx, http.MethodPost, map[string]any{}, &answer, c.session, "run")
	return func() {
		if answer.Run == nil {
			c.screen.note("nothing waits for an answer")
		} else {
			c.screen.note("the run is " + answer.Run.Status)
		}
	}, err
}
