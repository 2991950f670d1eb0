package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// archive writes the .tar.gz of a platform: one directory with everything in it.
func (r *release) archive(p platform, binaries, share string) (err error) {
	name := fmt.Sprintf("brokerd_%s_%s", r.version, p)
	files := map[string]string{} // name in the archive to name on disk
	for _, program := range programs {
		files["bin/"+program] = filepath.Join(binaries, program)
	}
	for _, made := range []string{"sbom.cdx.json", licenceFile} {
		files[made] = filepath.Join(binaries, made)
	}
	for _, doc := range []string{"README.md", "CHANGELOG.md", "LICENSE", "THIRD_PARTY.md"} {
		files[doc] = filepath.Join(r.root, doc)
	}
	for in, from := range map[string]string{
		"deploy": filepath.Join(r.root, "deploy"), "docs": filepath.Join(r.root, "docs"),
		"share/man": filepath.Join(share, "man"), "share/completions": filepath.Join(share, "completions"),
	} {
		err := filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && filepath.Ext(path) != ".go" {
				files[filepath.ToSlash(filepath.Join(in, strings.TrimPrefix(path, from)))] = path
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	f, err := os.Create(filepath.Join(r.out, name+".tar.gz"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	zipped, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	archived := tar.NewWriter(zipped)
	names := make([]string, 0, len(files))
	for n := range files {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, n := range names {
		if err := r.addFile(archived, name+"/"+n, files[n]); err != nil {
			return err
		}
	}
	return errors.Join(archived.Close(), zipped.Close())
}

// addFile adds one file, as root's and with the date of the release.
func (r *release) addFile(to *tar.Writer, name, path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	mode := int64(0o644)
	if strings.Contains(name, "/bin/") || strings.HasSuffix(name, ".sh") {
		mode = 0o755
	}
	head := &tar.Header{Name: name, Mode: mode, Size: int64(len(content)), ModTime: r.date, Uname: "root", Gname: "root", Format: tar.FormatPAX}
	if err := to.WriteHeader(head); err != nil {
		return err
	}
	_, err = to.Write(content)
	return err
}

// sums writes the checksums of all results, as `sha256sum -c` reads them.
func (r *release) sums() error {
	files, err := filepath.Glob(filepath.Join(r.out, "brokerd*"))
	if err != nil {
		return err
	}
	var list bytes.Buffer
	for _, path := range files {
		sum, err := sumOf(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(&list, "%x  %s\n", sum, filepath.Base(path))
	}
	os.Stdout.Write(list.Bytes())
	return write(filepath.Join(r.out, "SHA256SUMS"), list.Bytes())
}

func sumOf(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return nil, err
	}
	return h.Sum(nil), nil
}

// write writes a file and creates its directory.
func write(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}

// writeGzip writes a file compressed, without a date or a name in it.
func writeGzip(path string, content []byte) error {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := z.Write(content); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return write(path, out.Bytes())
}
