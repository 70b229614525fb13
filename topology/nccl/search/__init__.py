"""The search for rings, trees and NVLS graphs."""
