package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/pluginpb"
)

// modulePath is that of go.mod. The go_package of every schema begins with it, and what
// follows is the directory of its code.
const modulePath = "github.com/wsd-dev/wsd"

// generate returns the Go code of all schemas of the module in dir, by slash-separated
// path from there.
func generate(ctx context.Context, dir string) (map[string][]byte, error) {
	names, err := schemas(filepath.Join(dir, "proto"))
	if err != nil {
		return nil, err
	}
	request, err := compile(ctx, filepath.Join(dir, "proto"), names)
	if err != nil {
		return nil, err
	}
	response, err := plugin(ctx, dir, request)
	if err != nil {
		return nil, err
	}
	files := make(map[string][]byte, len(response.GetFile()))
	for _, f := range response.GetFile() {
		files[f.GetName()] = []byte(f.GetContent())
	}
	return files, nil
}

// schemas lists the .proto files below dir, as slash-separated paths from there.
func schemas(dir string) ([]string, error) {
	var names []string
	err := iofs.WalkDir(os.DirFS(dir), ".", func(path string, entry iofs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.HasSuffix(path, ".proto") {
			names = append(names, path)
		}
		return err
	})
	if err == nil && len(names) == 0 {
		err = fmt.Errorf("no schema below %s", dir)
	}
	return names, err
}

// compile turns the schemas below dir into what protoc would ask a plugin to generate.
func compile(ctx context.Context, dir string, names []string) (*pluginpb.CodeGeneratorRequest, error) {
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{dir}}),
		SourceInfoMode: protocompile.SourceInfoStandard, // comments become doc comments
	}
	files, err := compiler.Compile(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	request := &pluginpb.CodeGeneratorRequest{
		FileToGenerate: names,
		Parameter:      proto.String("module=" + modulePath),
	}
	seen := map[string]bool{}
	for _, f := range files {
		add(request, f, seen)
	}
	return request, nil
}

// add puts f into the request, after all that it imports: a plugin reads in that order.
func add(request *pluginpb.CodeGeneratorRequest, f linker.File, seen map[string]bool) {
	if seen[f.Path()] {
		return
	}
	seen[f.Path()] = true
	imports := f.Imports()
	for i := range imports.Len() {
		add(request, f.FindImportByPath(imports.Get(i).Path()), seen)
	}
	request.ProtoFile = append(request.ProtoFile, protoutil.ProtoFromFileDescriptor(protoreflect.FileDescriptor(f)))
}

// plugin runs the protoc-gen-go that the go.mod in dir pins.
func plugin(ctx context.Context, dir string, request *pluginpb.CodeGeneratorRequest) (*pluginpb.CodeGeneratorResponse, error) {
	input, err := proto.Marshal(request)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", "tool", "protoc-gen-go")
	cmd.Dir = dir
	cmd.Stdin = bytes.NewReader(input)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("protoc-gen-go: %w\n%s", err, stderr.Bytes())
	}
	response := new(pluginpb.CodeGeneratorResponse)
	if err := proto.Unmarshal(output, response); err != nil {
		return nil, fmt.Errorf("protoc-gen-go: %w", err)
	}
	if response.Error != nil {
		return nil, errors.New("protoc-gen-go: " + response.GetError())
	}
	return response, nil
}
