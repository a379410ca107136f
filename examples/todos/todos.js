// The to-do list of Backbone's own example, on a REST resource instead of the browser's storage.
"use strict";

// The page lies at …/todos/page, the collection at …/todos/, whatever is before that.
const BASE = location.pathname.replace(/page\/?$/, "");

const ToDo = Backbone.Model.extend({
  toggle() {
    this.save({done: !this.get("done")}, {patch: true});
  },
});

const ToDoList = Backbone.Collection.extend({
  model: ToDo,
  url: BASE,
  comparator: "order",

  done() {
    return this.where({done: true});
  },

  nextOrder() {
    return this.length ? this.last().get("order") + 1 : 1;
  },
});

const ToDoView = Backbone.View.extend({
  tagName: "li",
  template: _.template($("#item").html()),
  events: {
    "click .toggle": "toggle",
    "dblclick label": "edit",
    "click .destroy": "destroy",
    "keydown .edit": "key",
    "blur .edit": "close",
  },

  initialize() {
    this.listenTo(this.model, "change", this.render);
    this.listenTo(this.model, "remove", this.remove);
  },

  render() {
    if (this.$el.hasClass("editing")) return this;  // what is typed stays, whatever is read meanwhile
    this.$el.html(this.template(this.model.toJSON())).toggleClass("done", this.model.get("done"));
    return this;
  },

  toggle() {
    this.model.toggle();
  },

  destroy() {
    this.model.destroy({wait: true});
  },

  edit() {
    this.$el.addClass("editing");
    this.$(".edit").val(this.model.get("text")).trigger("select");
  },

  key(event) {
    if (event.key === "Enter") this.close();
    if (event.key === "Escape") this.leave();
  },

  leave() {
    this.$el.removeClass("editing");
    this.render();
  },

  close() {
    if (!this.$el.hasClass("editing")) return;
    const text = this.$(".edit").val().trim();
    this.leave();
    if (!text) this.destroy();
    else if (text !== this.model.get("text")) this.model.save({text}, {patch: true});
  },
});

const AppView = Backbone.View.extend({
  el: "body",
  events: {
    "keydown #new": "create",
    "click #clear": "clearCompleted",
    "click #all": "toggleAll",
    "click #refresh": "refresh",
  },

  initialize() {
    this.todos = new ToDoList();
    this.listenTo(this.todos, "update reset sort", this.show);
    this.listenTo(this.todos, "change", this.count);
    this.listenTo(this.todos, "error", this.fail);
    this.listenTo(this.todos, "sync", this.answered);
    $(window).on("focus", () => this.refresh());
    this.refresh();
  },

  refresh() {
    this.todos.fetch();
  },

  // Adds what is new in its place; an item that is being edited keeps its element.
  show() {
    this.todos.each((todo) => {
      todo.view = todo.view || new ToDoView({model: todo}).render();
      if (!todo.view.$el.hasClass("editing")) $("#list").append(todo.view.el);
    });
    this.count();
  },

  count() {
    const done = this.todos.done().length;
    const left = this.todos.length - done;
    $("#count").text(`${left} ${left === 1 ? "item" : "items"} left`);
    $("#clear").prop("hidden", !done).text(`Clear completed (${done})`);
    $("#all").prop("checked", this.todos.length > 0 && !left);
  },

  create(event) {
    const text = event.target.value.trim();
    if (event.key !== "Enter" || !text) return;
    this.todos.create({text, order: this.todos.nextOrder(), done: false}, {wait: true});
    event.target.value = "";
  },

  clearCompleted() {
    _.invoke(this.todos.done(), "destroy", {wait: true});
  },

  toggleAll(event) {
    const done = event.target.checked;
    this.todos.each((todo) => todo.save({done}, {patch: true}));
  },

  fail(_model, response) {
    const problem = response.responseJSON || {};
    $("#problem").text(problem.detail || problem.title || "No answer: try again.").prop("hidden", false);
    if (response.status === 404) this.refresh();  // deleted elsewhere
  },

  answered() {
    $("#problem").prop("hidden", true);
    this.count();
  },
});

window.app = new AppView();
