module github.com/keel-agent/keel/mutants

go 1.26
