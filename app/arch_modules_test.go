package app_test

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestArchWorkspaceListsEveryModule(t *testing.T) {
	root := repositoryRoot(t)
	var work struct{ Use []struct{ DiskPath string } }
	goJSON(t, root, &work, "work", "edit", "-json", "go.work")
	var used []string
	for _, use := range work.Use {
		used = append(used, path.Clean(use.DiskPath))
	}
	used = append(used, outside...)
	slices.Sort(used)
	if dirs := moduleDirs(t, root); !slices.Equal(used, dirs) {
		t.Errorf("go.work uses, and outside of it are,\n\t%v\nthe tree has go.mod files in\n\t%v", used, dirs)
	}
}

// modFile is what go mod edit -json prints, as far as it matters here.
type modFile struct {
	Module  struct{ Path string }
	Require []struct{ Path string }
	Replace []struct {
		Old, New struct{ Path, Version string }
	}
}

func TestArchSiblingsAreReplaced(t *testing.T) {
	root := repositoryRoot(t)
	for _, dir := range moduleDirs(t, root) {
		var mod modFile
		goJSON(t, filepath.Join(root, dir), &mod, "mod", "edit", "-json")
		for _, fault := range siblingFaults(dir, mod) {
			t.Errorf("%s/go.mod: %s", dir, fault)
		}
	}
}

// siblingFaults checks the go.mod of the module in dir, a path relative to the repository.
func siblingFaults(dir string, mod modFile) []string {
	var faults []string
	if mod.Module.Path != project+dir {
		faults = append(faults, fmt.Sprintf("the module path is %s, the directory asks for %s", mod.Module.Path, project+dir))
	}
	replaced := map[string]bool{}
	for _, replace := range mod.Replace {
		sibling, ours := strings.CutPrefix(replace.Old.Path, project)
		target := replace.New.Path
		relative := strings.HasPrefix(target, "./") || strings.HasPrefix(target, "../")
		switch {
		case !ours:
			faults = append(faults, fmt.Sprintf("replaces %s: only siblings are replaced", replace.Old.Path))
		case !relative || path.Join(dir, target) != sibling:
			faults = append(faults, fmt.Sprintf("replaces %s by %s, which is not the relative path of %s", replace.Old.Path, target, sibling))
		case replace.Old.Version != "":
			faults = append(faults, fmt.Sprintf("replaces only version %s of %s", replace.Old.Version, replace.Old.Path))
		default:
			replaced[replace.Old.Path] = true
		}
	}
	for _, require := range mod.Require {
		if strings.HasPrefix(require.Path, project) && !replaced[require.Path] {
			faults = append(faults, fmt.Sprintf("requires %s without replacing it by a relative path", require.Path))
		}
	}
	return faults
}
