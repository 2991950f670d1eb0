// Package nsqlink connects a command to one topic over the NSQ protocol, to publish and to consume.
// It asks the cluster for its nodes, follows the leaders, and says what becomes of connections.
package nsqlink
