package arch

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/importer"
	"go/types"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestMethodSetsStaySmall(t *testing.T) {
	for _, p := range checked(t) {
		for name, n := range methodSets(p) {
			within(t, strings.TrimPrefix(p.Path(), module+"/")+"."+name+" methods", n, maxMethods)
		}
	}
}

// methodSets counts the methods of a package's types and of pointers to them, including those
// promoted from embedded fields and interfaces. Methods promoted from other modules are not
// counted: they change with those modules.
func methodSets(p *types.Package) map[string]int {
	sets := map[string]int{}
	for _, name := range p.Scope().Names() {
		object, ok := p.Scope().Lookup(name).(*types.TypeName)
		if !ok || object.IsAlias() {
			continue
		}
		of := object.Type()
		if !types.IsInterface(of) {
			of = types.NewPointer(of)
		}
		for method := range types.NewMethodSet(of).Methods() {
			if from := method.Obj().Pkg(); from != nil && strings.HasPrefix(from.Path(), module+"/") {
				sets[name]++
			}
		}
	}
	return sets
}

// checked returns the types of the module's packages, without tests.
func checked(t *testing.T) []*types.Package {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "list", "-deps", "-export", "-json=ImportPath,Export,GoFiles", "./...")
	command.Dir, command.Stderr = root, os.Stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	files := map[string]*ast.File{}
	for _, s := range sources(t) {
		files[s.path] = s.file
	}
	exports := map[string]string{} // export data by import path
	fset := sources(t)[0].fset
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })}
	var all []*types.Package
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); { // dependencies come first
		var listed struct {
			ImportPath, Export string
			GoFiles            []string
		}
		if err := d.Decode(&listed); err != nil {
			t.Fatal(err)
		}
		exports[listed.ImportPath] = listed.Export
		dir, ours := strings.CutPrefix(listed.ImportPath, module+"/")
		if !ours {
			continue
		}
		var built []*ast.File
		for _, name := range listed.GoFiles {
			built = append(built, files[dir+"/"+name])
		}
		p, err := config.Check(listed.ImportPath, fset, built, nil)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}
