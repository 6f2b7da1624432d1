// Command keel is the durable agent server and its tools.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/alecthomas/kong"

	"github.com/keel-agent/keel/app"
)

// cli is the command line. Flags win over KEEL_* environment variables, and those over the YAML file of --config.
type cli struct {
	Config  string           `help:"YAML file with values for the flags, by their names." type:"existingfile" env:"KEEL_CONFIG" placeholder:"FILE"`
	Version kong.VersionFlag `help:"Print the version and leave."`

	Serve     serveCmd   `cmd:"" help:"Serve the API and run agents."`
	Chat      chatCmd    `cmd:"" help:"Talk to an agent in the terminal."`
	Events    eventsCmd  `cmd:"" help:"Read a session's ledger."`
	Migrate   migrateCmd `cmd:"" help:"Bring a store's schema up to date."`
	Verify    verifyCmd  `cmd:"" help:"Check that a store's rows say what its ledgers say."`
	Secrets   secretsCmd `cmd:"" help:"Care for the secrets of tenants."`
	Graph     graphCmd   `cmd:"" help:"Print how the parts of the server are wired, in DOT."`
	VersionOf versionCmd `cmd:"" name:"version" help:"Print the version."`
}

type versionCmd struct{}

func (versionCmd) Run() error {
	_, err := fmt.Println("keel " + app.Version)
	return err
}

func main() {
	os.Exit(run(os.Args[1:]))
}

// run carries out the command line args and returns the exit code: 0, 1 for a failure, 2 for a wrong command line.
func run(args []string) int {
	var c cli
	parser := kong.Must(&c,
		kong.Name("keel"),
		kong.Description("Keel is a durable agent server: the work of an LLM agent in an append-only ledger."),
		kong.Vars{"version": "keel " + app.Version},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.UsageOnError(),
		kong.Resolvers(fileResolver(configPath(args))),
	)
	ctx, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintf(os.Stderr, "keel: %v\n(see: %s --help)\n", err, commandOf(err))
		return 2
	}
	err = ctx.Run()
	exit := exitWith{code: 1, err: err}
	if err == nil {
		return 0
	}
	if errors.As(err, &exit); exit.err != nil {
		fmt.Fprintf(os.Stderr, "keel: %v\n", exit.err)
	}
	return exit.code
}

// commandOf returns the command that a wrong command line was on its way to.
func commandOf(err error) string {
	var wrong *kong.ParseError
	if errors.As(err, &wrong) && wrong.Context.Selected() != nil {
		return wrong.Context.Selected().FullPath()
	}
	return "keel"
}

// exitWith is an error with an exit code of its own. It says nothing when err is nil.
type exitWith struct {
	code int
	err  error
}

func (e exitWith) Error() string { return fmt.Sprintf("exit code %d: %v", e.code, e.err) }
