package client

import (
	"context"
	"fmt"
	"path"

	"github.com/wsd-dev/wsd/fs/fileuri"
)

// uri turns a path on the server into the wire's form. Relative paths are relative to
// the server's own directory.
func (c *Client) uri(ctx context.Context, name string) (string, error) {
	abs, err := c.Abs(ctx, name)
	if err != nil {
		return "", err
	}
	return fileuri.Format(abs), nil
}

// Abs makes a path on the server absolute, and cleans it.
func (c *Client) Abs(ctx context.Context, name string) (string, error) {
	if name == "" {
		return "", fmt.Errorf("empty path")
	}
	if path.IsAbs(name) {
		return path.Clean(name), nil
	}
	info, err := c.Environment(ctx)
	if err != nil {
		return "", err
	}
	dir, err := fileuri.Path(info.Cwd)
	if err != nil {
		return "", fmt.Errorf("the server's directory: %w", err)
	}
	return path.Join(dir, name), nil
}

// pathOf is the path of a URI that the server sent.
func pathOf(uri string) (string, error) {
	name, err := fileuri.Path(uri)
	if err != nil {
		return "", fmt.Errorf("path from the server: %w", err)
	}
	return name, nil
}
