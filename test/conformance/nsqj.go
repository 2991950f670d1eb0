package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	_ "embed"

	"github.com/brokerd/brokerd/test/steps"
)

// The Java client, from Maven's registry. Its own tests need containers. Jobs.java,
// which is ours, uses the client's features instead.
const nsqjJobs = 19

// mavenCopy copies what a project depends on, by a plugin of a pinned version.
const mavenCopy = "org.apache.maven.plugins:maven-dependency-plugin:2.8:copy-dependencies"

var (
	// nsqjProject pins the client, and nsqjSums the bytes of it and of what it needs.
	//
	//go:embed nsqj/pom.xml
	nsqjProject []byte
	//go:embed nsqj/lib.sha256
	nsqjSums []byte
	//go:embed nsqj/Jobs.java
	nsqjProgram []byte
)

// nsqj runs all jobs with one broker.
func nsqj(e env) (string, error) {
	lib := nsqjInstall(e)
	steps.Must(write(e.scratch, map[string]string{"Jobs.java": string(nsqjProgram)}))
	s := serveNSQD(e, filepath.Join(e.scratch, "data"))
	var out bytes.Buffer
	secret, err := e.secret()
	if err == nil {
		err = command(e.ctx, e.scratch, &out, "java", "-Djava.io.tmpdir="+e.scratch, "-cp", filepath.Join(lib, "*"), "Jobs.java", tcpAddress, httpAddress, secret).Run()
	}
	err = errors.Join(err, s.Stop())
	var all tapCount
	all.add(out.String())
	return all.verdict(nsqjJobs, err, func() string { return tail(out.Bytes()) + "\n" + s.LogEnd() })
}

// nsqjInstall returns the directory of the client and its dependencies.
func nsqjInstall(e env) (lib string) {
	lib = filepath.Join(e.cache, "lib")
	steps.During("nsq-j cannot be installed", func() {
		packages{
			pins: map[string]string{"pom.xml": string(nsqjProject), "lib.sha256": string(nsqjSums)},
			need: needPrograms("a Java development kit (11 or newer) and Maven", "javac", "mvn"),
			get: func(e env) {
				fetch(e, e.cache, "mvn", "--batch-mode", "--quiet",
					"-Dmaven.repo.local="+filepath.Join(e.cache, "repository"), mavenCopy, "-DoutputDirectory="+lib)
			},
		}.install(e)
		steps.Must(checkSums(lib, nsqjSums))
	})
	return lib
}

// checkSums checks that a directory holds the files of a list by sha256sum, and no other.
func checkSums(dir string, list []byte) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var got strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&got, "%x  %s\n", sha256.Sum256(text), f.Name())
	}
	if got.String() != string(list) {
		return fmt.Errorf("%s holds other files than are pinned:\n%s", dir, got.String())
	}
	return nil
}
