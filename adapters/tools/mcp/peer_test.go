package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"
)

// peerMode makes the test's own binary a server over standard input and output.
const peerMode = "KEEL_TEST_PEER"

func TestMain(m *testing.M) {
	if mode := os.Getenv(peerMode); mode != "" {
		peer(mode)
		return
	}
	goleak.VerifyTestMain(m)
}

// peer is a server with a habit.
func peer(mode string) {
	transport := &mcp.IOTransport{Reader: os.Stdin, Writer: os.Stdout}
	switch mode {
	case "chatty":
		fmt.Print("Welcome to the server!\n\n{\"level\":\"info\",\"msg\":\"started\"}\n[1,2]\n{\"jsonrpc\":\"1.0\"}\n{broken\n")
		fmt.Fprintln(os.Stderr, "a line on standard error")
	case "deaf": // neither answers, nor ends with its input or at SIGTERM
		signal.Ignore(syscall.SIGTERM)
		select {}
	case "endless":
		line := strings.Repeat("x", 1<<20)
		for {
			if _, err := io.WriteString(os.Stdout, line); err != nil {
				return
			}
		}
	case "quitter":
		return
	case "old": // does not answer what it does not know
		transport.Reader = without(os.Stdin, "server/discover")
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "peer", Version: "1"}, nil)
	addPeerTools(s)
	_ = s.Run(context.Background(), transport)
}

// without passes on the lines that do not contain a word.
func without(r io.Reader, word string) io.ReadCloser {
	pr, pw := io.Pipe()
	go func() {
		for line := range boundedLines(r, 1<<20) {
			if !strings.Contains(string(line.text), word) {
				_, _ = pw.Write(append(line.text, '\n'))
			}
		}
		_ = pw.Close()
	}()
	return pr
}

type handler = func(ctx context.Context, req *mcp.CallToolRequest, args map[string]any) (*mcp.CallToolResult, error)

func textResult(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// add offers a tool whose arguments the server does not validate.
func add(s *mcp.Server, name, schema string, h handler) {
	s.AddTool(&mcp.Tool{Name: name, Description: "the tool " + name, InputSchema: json.RawMessage(schema)},
		func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			args := map[string]any{}
			if err := json.Unmarshal(req.Params.Arguments, &args); err != nil {
				return nil, err
			}
			return h(ctx, req, args)
		})
}

func addPeerTools(s *mcp.Server) {
	add(s, "echo", `{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`,
		func(_ context.Context, req *mcp.CallToolRequest, _ map[string]any) (*mcp.CallToolResult, error) {
			return textResult(string(req.Params.Arguments)), nil
		})
	add(s, "env", `{"type":"object"}`, func(context.Context, *mcp.CallToolRequest, map[string]any) (*mcp.CallToolResult, error) {
		env := os.Environ()
		slices.Sort(env)
		return textResult(strings.Join(env, "\n")), nil
	})
	add(s, "die", `{"type":"object"}`, func(context.Context, *mcp.CallToolRequest, map[string]any) (*mcp.CallToolResult, error) {
		os.Exit(3)
		return nil, nil
	})
	add(s, "wait", `{"type":"object"}`, func(ctx context.Context, _ *mcp.CallToolRequest, _ map[string]any) (*mcp.CallToolResult, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	add(s, "pid", `{"type":"object"}`, func(context.Context, *mcp.CallToolRequest, map[string]any) (*mcp.CallToolResult, error) {
		return textResult(fmt.Sprint(os.Getpid())), nil
	})
	add(s, "child", `{"type":"object"}`, func(context.Context, *mcp.CallToolRequest, map[string]any) (*mcp.CallToolResult, error) {
		child := exec.Command("sleep", "600")
		child.Stdout = os.Stdout
		err := child.Start()
		if err != nil {
			return nil, err
		}
		return textResult(fmt.Sprint(child.Process.Pid)), nil
	})
	add(s, "big", `{"type":"object"}`, func(context.Context, *mcp.CallToolRequest, map[string]any) (*mcp.CallToolResult, error) {
		return textResult(strings.Repeat("é", 1<<20)), nil
	})
	add(s, "huge", `{"type":"object"}`, func(context.Context, *mcp.CallToolRequest, map[string]any) (*mcp.CallToolResult, error) {
		return textResult(strings.Repeat("x", largestMessage+1)), nil
	})
	add(s, "progress", `{"type":"object"}`, func(ctx context.Context, req *mcp.CallToolRequest, args map[string]any) (*mcp.CallToolResult, error) {
		for i := range int(args["steps"].(float64)) {
			select {
			case <-time.After(time.Duration(args["ms"].(float64) * 1e6)):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: float64(i)})
		}
		return textResult("arrived"), nil
	})
}
